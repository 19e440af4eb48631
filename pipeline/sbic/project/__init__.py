"""Projects: settings and topics, stored once in Kafka, and how they change."""
