"""HTTP for those who do not speak Kafka: labels in, posteriors out, and a page to watch."""
