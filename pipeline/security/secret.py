"""A secret that is not shown in logs, errors and tracebacks."""

from dataclasses import dataclass, field

HIDDEN = "***"


@dataclass(frozen=True, repr=False)
class Secret:
    """A password; only `reveal` returns it.

    >>> password = Secret("hunter2")
    >>> password, f"{password}", password.reveal() == "hunter2"
    (***, '***', True)
    """

    _text: str = field(repr=False)

    def reveal(self) -> str:
        """The secret itself, to send it."""
        return self._text

    def __repr__(self) -> str:
        return HIDDEN

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a secret must not be pickled")
