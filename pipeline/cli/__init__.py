"""The `sbic` command: one file per subcommand, heavy imports only inside the commands."""
