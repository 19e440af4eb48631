"""`make soak`: faults at random for SOAK_MINUTES, then a recount of everything.

    SOAK_MINUTES=30 SOAK_SEED=7 make soak

Prints the seed, each fault as it happens and the verdict; exit status 1 if anything is wrong. The
seed fixes which faults happen when, and not how the processes take turns.
"""

import asyncio
import os
import random
import sys

from sbic.commands.warm_up import warm_up
from tests.soak.run import soak

MOST_SHOWN = 20


def main() -> int:
    """Run as the environment says."""
    minutes = float(os.environ.get("SOAK_MINUTES", "10"))
    seed = int(os.environ.get("SOAK_SEED", random.randrange(1_000_000)))
    print(f"seed {seed}, {minutes:g} minutes (SOAK_SEED={seed} for the same faults again)")
    warm_up()  # else the instances compile, all at once
    found = asyncio.run(soak(seed, 60 * minutes, lambda what: print(what, flush=True)))
    for what in found.wrong[:MOST_SHOWN]:
        print(f"WRONG  {what}")
    sent = f"{found.labels:,} labels, {found.requests:,} requests, {found.faults} faults"
    if found.wrong:
        print(f"seed {seed}: WRONG in {len(found.wrong)} places, after {sent}")
        return 1
    print(f"seed {seed}: right. Every label counts once, every request is answered; {sent}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
