"""What goes over Kafka, one kind of record per file, independent of Kafka."""
