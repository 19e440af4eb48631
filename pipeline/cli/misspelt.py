"""Reports `SBIC_*` variables that nothing reads: they are probably misspelt."""

from collections.abc import Iterable
from difflib import get_close_matches

from pipeline.gateway import config as gateway
from pipeline.security import security
from pipeline.settings import SPECS, variable

ELSEWHERE = (
    "SBIC_DATA",  # the folder of crowds that the tests read
    "SBIC_GOES_ON",  # set by an instance that restarts itself: `batched.stop`
)


def misspelt(names: Iterable[str]) -> list[str]:
    """A line for each `SBIC_*` variable that is not known.

    >>> misspelt(["SBIC_ALPHAA", "SBIC_ALPHA", "SBIC_DATA", "HOME"])
    ['SBIC_ALPHAA is not read by anything: did you mean SBIC_ALPHA?']
    >>> misspelt(["SBIC_COLOUR"])
    ['SBIC_COLOUR is not read by anything: sbic run --help has all variables']
    """
    known = [*map(variable, SPECS), *security.VARIABLES, *gateway.VARIABLES, *ELSEWHERE]
    lines = []
    for name in sorted(names):
        if name.startswith("SBIC_") and name not in known:
            near = get_close_matches(name, known, n=1, cutoff=0.75)
            hint = f"did you mean {near[0]}?" if near else "sbic run --help has all variables"
            lines.append(f"{name} is not read by anything: {hint}")
    return lines
