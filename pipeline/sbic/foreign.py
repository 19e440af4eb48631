"""Values that others wrote, in messages for people."""

from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Any

MOST = 60  # characters
DIGITS_MOST = 4000  # Python refuses to write longer whole numbers


def shown(value: object, most: int = MOST) -> str:
    """Return the value as Python would write it, cut to `most` characters.

    Nothing that a file or record can contain makes this fail: unlike `repr`, it does not recurse.

    >>> shown({"a": ["b", 1.5, None]}), shown("x" * 100, 5), shown([[[[1, 2]]]], 6)
    ("{'a': ['b', 1.5, None]}", "'xxxx…", '[[[[1,…')
    """
    text, waiting = "", [value]
    while waiting and len(text) <= most:
        part = waiting.pop()
        if isinstance(part, _Written):
            text += part
        elif isinstance(part, list | tuple | Mapping):
            waiting += reversed(_opened(part, most))
        else:
            text += _scalar(part, most)
    return text if len(text) <= most else text[:most] + "…"


def printable(text: str, keep: str = "") -> str:
    r"""Return text as a terminal may show it: characters that control it or change the direction of
    writing are escaped, except those in `keep`.

    >>> print(printable("task\x1b[2J\u202e\n"), printable("a\nb", keep="\n").splitlines())
    task\x1b[2J\u202e\n ['a', 'b']
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text
    )


def local_time(milliseconds: int) -> str:
    """Return the time of a record, which its producer chose; as a number where no calendar has it.

    >>> local_time(1 << 62)
    '4611686018427387904 ms'
    """
    try:
        found = datetime.fromtimestamp(milliseconds / 1000).astimezone()
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"
    return f"{found:%Y-%m-%d %H:%M:%S}"


class _Written(str):
    """Text that is part of the result already."""


def _opened(value: list[Any] | tuple[Any, ...] | Mapping[Any, Any], most: int) -> list[Any]:
    """Return the parts of a value up to its values; each takes a character at least."""
    first, last = "{}" if isinstance(value, Mapping) else "[]"
    parts: list[Any] = [_Written(first)]
    for number, item in enumerate(islice(value, most)):
        if number:
            parts.append(_Written(", "))
        parts.append(item)
        if isinstance(value, Mapping):
            parts += [_Written(": "), value[item]]
    return [*parts, _Written(last)]


def _scalar(value: object, most: int) -> str:
    match value:
        case str() | bytes():
            return repr(value[: most + 1])
        case int() if abs(value) >= 10**DIGITS_MOST:
            return "a whole number of thousands of digits"
        case None | bool() | int() | float():
            return repr(value)
        case _:
            return f"a {type(value).__name__}"
