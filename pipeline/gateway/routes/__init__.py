"""What the gateway answers, a file for each subject; `pipeline.gateway.app` has the list."""
