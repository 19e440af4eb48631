"""What goes over the wire: one file per kind of record; nothing here knows Kafka."""
