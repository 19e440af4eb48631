"""The routes of the gateway, a file for each subject; `pipeline.gateway.app` lists them."""
