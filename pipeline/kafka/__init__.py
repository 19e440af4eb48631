"""Clients of Kafka: connecting, administration, reading, sending and asking."""
