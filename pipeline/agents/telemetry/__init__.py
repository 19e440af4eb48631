"""What an instance tells of itself: metrics, logs, traces and its web pages."""
