"""The tools around the pipeline: ordinary Kafka clients, and what runs the whole of it locally."""
