"""Kafka and Faust drive an instance."""
