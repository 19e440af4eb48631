"""Label Studio: what its webhooks and exports say, as labels. Pure: no Kafka, no web."""
