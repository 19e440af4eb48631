"""Who answers which task next: pure objects, for simulations and for the stream alike."""
