"""What an instance reports: metrics, logs, traces and its web pages."""
