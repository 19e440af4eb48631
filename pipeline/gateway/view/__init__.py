"""What a gateway knows of a project: fed with records, asked for pages; no Kafka and no HTTP."""
