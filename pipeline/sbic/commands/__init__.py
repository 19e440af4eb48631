"""The `sbic` command: a file per subcommand."""
