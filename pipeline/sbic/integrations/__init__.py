"""Other tools: Label Studio."""
