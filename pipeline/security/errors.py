"""What is wrong with the settings of the connection, in one line that never has a secret in it."""


class BadSecurity(ValueError):
    """Settings of the connection that cannot be, by themselves or together."""
