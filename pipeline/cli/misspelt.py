"""Tells of `SBIC_*` variables that nothing reads: most likely they are misspelt."""

from collections.abc import Iterable
from difflib import get_close_matches

from pipeline.security.security import VARIABLES
from pipeline.settings import SPECS, variable

ELSEWHERE = (
    "SBIC_DATA",  # the folder of crowds that the tests read
    "SBIC_GATEWAY_CONNECTIONS",
    "SBIC_GATEWAY_CORS",
    "SBIC_GATEWAY_HOST",
    "SBIC_GATEWAY_PORT",
    "SBIC_GATEWAY_PROJECTS",
    "SBIC_GATEWAY_RATE",
    "SBIC_GATEWAY_TOKEN",
    "SBIC_GATEWAY_TOKEN_FILE",
    "SBIC_GOES_ON",  # what an instance tells itself: `batched.stop`
)


def misspelt(names: Iterable[str]) -> list[str]:
    """A line for each variable of ours that is none.

    >>> misspelt(["SBIC_ALPHAA", "SBIC_ALPHA", "SBIC_DATA", "HOME"])
    ['SBIC_ALPHAA is not read by anything: did you mean SBIC_ALPHA?']
    >>> misspelt(["SBIC_COLOUR"])
    ['SBIC_COLOUR is not read by anything: sbic run --help has all variables']
    """
    known = [*map(variable, SPECS), *VARIABLES, *ELSEWHERE]
    lines = []
    for name in sorted(names):
        if name.startswith("SBIC_") and name not in known:
            near = get_close_matches(name, known, n=1, cutoff=0.75)
            hint = f"did you mean {near[0]}?" if near else "sbic run --help has all variables"
            lines.append(f"{name} is not read by anything: {hint}")
    return lines
