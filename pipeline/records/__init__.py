"""The wire formats: one file per kind of record, independent of Kafka."""
