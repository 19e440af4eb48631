"""One instance without Kafka: records in, state changes and records out."""
