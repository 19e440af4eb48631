"""The documents, held to the code: what they show is run, what they name exists."""
