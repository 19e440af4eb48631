"""A simulated crowd on a real pipeline, and the demonstration."""
