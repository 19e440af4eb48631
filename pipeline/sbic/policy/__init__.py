"""Which task a worker answers next: pure objects, for simulations and for the stream."""
