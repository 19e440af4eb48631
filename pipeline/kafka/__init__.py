"""What the tools ask of a Kafka cluster, apart from records."""
