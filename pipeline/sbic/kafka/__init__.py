"""Clients of Kafka: connecting, administration, reading, writing and requesting tasks."""
