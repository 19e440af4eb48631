"""How a project is doing: a summary read from Kafka, and posteriors as they change."""
