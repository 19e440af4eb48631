"""The paper: baselines, online forms, tables, figures, bounds and sizing; only commands load it."""
