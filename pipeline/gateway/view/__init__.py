"""A gateway's in-memory view of a project, built from records; without Kafka and HTTP."""
