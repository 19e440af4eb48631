"""The routes of the gateway, by what they do."""
