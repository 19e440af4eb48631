"""Runs the pipeline on this machine: an embedded Kafka, instances and a gateway, supervised."""
