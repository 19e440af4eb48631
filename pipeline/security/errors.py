"""Errors in the settings of the connection; messages never contain a secret."""


class BadSecurity(ValueError):
    """Settings of the connection that are invalid, or do not fit together."""
