"""Real-time truth from crowds, on Kafka."""

__version__ = "0.1.0"
