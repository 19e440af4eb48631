"""How to reach a Kafka that is behind TLS and a password: settings, secrets and certificates."""
