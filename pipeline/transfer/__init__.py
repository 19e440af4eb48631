"""Moves data in and out of topics: replays labels and dead letters, registers tasks, exports."""
