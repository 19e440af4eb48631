"""On how many examples hypothesis tries a property: fewer in `make check` than in `make test`.

With EXAMPLES=100 a hundred times as many:

    EXAMPLES=100 .venv/bin/pytest --timeout 0 tests/stages/test_schedules.py
"""

import os

from hypothesis import settings

USUAL = 100
QUICK = 10
TIMES = int(os.environ.get("EXAMPLES", "1"))


def set_examples(is_quick: bool) -> None:
    """Set the number for tests that do not choose one.

    No test has a deadline for one example: the first may compile, and the machine may be busy.
    """
    number = TIMES * (QUICK if is_quick else USUAL)
    settings.register_profile("sbic", deadline=None, max_examples=number)
    settings.load_profile("sbic")


def examples(number: int) -> settings:
    """Try this many in `make test`, and in `make check` as many fewer as everywhere."""
    return settings(max_examples=number * settings().max_examples // USUAL)
