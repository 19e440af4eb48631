"""What the agents do, without Kafka: records in, state changes and records out."""
