"""The tables and figures of the paper, each a command that can be stopped and continued."""
