"""What a policy needs to know about tasks."""

import numpy as np

from pipeline.inference.compiled import kernel
from pipeline.inference.engine.state import BELIEF, GOLD, LABELS, Ints32
from pipeline.inference.labels import Floats, Ints


@kernel
def write_overview(
    task: Ints32,
    belief: Floats,
    classes: int,
    tasks: Ints,
    labels: Ints,
    golds: Ints,
    leads: Floats,
) -> None:
    """Write each task's number of labels, its gold or NONE, and its lead: see `Overview`.

    Two arrays instead of the whole state make it a quick call.
    """
    for t in range(len(tasks)):
        i = tasks[t]
        labels[t] = task[i, LABELS]
        golds[t] = task[i, GOLD]
        first = second = -np.inf
        for k in range(classes):
            score = belief[i, BELIEF + classes + k]
            if score > first:
                first, second = score, first
            elif score > second:
                second = score
        leads[t] = first - second
