"""Between files and topics: labels, tasks and dead letters, sent or taken out."""
