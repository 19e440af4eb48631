"""Clients of Kafka: connecting, administration, reading, sending labels and requesting tasks."""
