"""Labels, truths and results on disk: read with the line of every mistake, written whole."""
