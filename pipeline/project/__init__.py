"""What a project is: settings and topics, written down once in Kafka, and how they change."""
