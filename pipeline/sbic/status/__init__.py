"""How a project is doing, and what its topics contain, read from Kafka."""
