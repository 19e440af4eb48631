"""Connecting to Kafka with TLS and SASL: settings, secrets and certificates."""
