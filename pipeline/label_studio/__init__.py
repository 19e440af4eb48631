"""Label Studio: converts its webhooks and exports to labels, and imports exports."""
