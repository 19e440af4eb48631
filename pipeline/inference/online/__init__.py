"""The algorithms one label at a time, behind one interface."""
