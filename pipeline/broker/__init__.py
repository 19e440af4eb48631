"""A real Apache Kafka as a child process: no Java and no Docker needed, loopback only."""
