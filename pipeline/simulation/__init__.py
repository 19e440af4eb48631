"""Simulated crowds on a real pipeline, and the demo."""
