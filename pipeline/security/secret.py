"""A secret that does not show itself: not in a log, an error or a traceback."""

from dataclasses import dataclass, field

HIDDEN = "***"


@dataclass(frozen=True, repr=False)
class Secret:
    """A password; only `reveal` gives it away.

    >>> password = Secret("hunter2")
    >>> password, f"{password}", password.reveal() == "hunter2"
    (***, '***', True)
    """

    _text: str = field(repr=False)

    def reveal(self) -> str:
        """The secret itself, for whoever has to send it."""
        return self._text

    def __repr__(self) -> str:
        return HIDDEN

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a secret is not to be written anywhere")
