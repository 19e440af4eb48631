"""Every algorithm, described once: settings, commands, experiments and tests read this table.

The table needs neither numpy nor numba, so that `sbic --help` stays quick.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, get_args

from sbic.engine import AlgorithmName

if TYPE_CHECKING:
    from sbic.engine.labels import Algorithm
    from sbic.research.online import OnlineForm


STREAMED: tuple[AlgorithmName, ...] = get_args(AlgorithmName)


@dataclass(frozen=True)
class AlgorithmEntry:
    """An algorithm and its properties.

    `title`: its name in tables and figures.
    `in_paper`: whether the paper's Table 2 has it.
    `is_random`: whether the estimate depends on the order of the labels or on the random generator.
    Such an algorithm is judged by its mean error over many runs.
    `any_classes`: whether it takes any number of classes; the others need -1 and 1.
    `settles`: whether it refreshes all tasks until no probability moves. Where an algorithm
    settles, the class prior takes the place of the probability of +1.
    `module`: the module with the algorithm, a function of the same name.
    `online`: the module with its online form, if it has one.
    `moves_one_task`: whether a label changes only its own task's score online, not that of all.
    """

    name: str
    title: str
    module: str
    in_paper: bool = False
    is_random: bool = False
    any_classes: bool = False
    settles: bool = False
    online: str | None = None
    moves_one_task: bool = False

    @property
    def streams(self) -> bool:
        """Whether the pipeline can run it.

        >>> ALGORITHMS["settled"].streams, ALGORITHMS["settled-live"].streams
        (True, False)
        """
        return self.name in STREAMED

    def takes(self, are_signs: bool) -> bool:
        """Whether it can run on classes that are -1 and 1, or on others.

        >>> ALGORITHMS["dawid-skene"].takes(are_signs=False), ALGORITHMS["em"].takes(False)
        (True, False)
        """
        return self.any_classes or are_signs

    def load(self) -> "Algorithm":
        """Import the algorithm."""
        algorithm: Algorithm = getattr(import_module(self.module), self._identifier)
        return algorithm

    def load_online(self) -> "OnlineForm":
        """Import the function that starts the online form; ValueError where there is none."""
        if self.online is None:
            known = ", ".join(ONLINE)
            raise ValueError(f"{self.name} has no online form; choose from {known}")
        form: OnlineForm = getattr(import_module(self.online), self._identifier)
        return form

    @property
    def _identifier(self) -> str:
        return self.name.replace("-", "_")


BASELINES = "sbic.research.baselines"
ONLINE_FORMS = "sbic.research.online"
PARTICLE_FILTER = "sbic.research.particle_filter"
SORTED_ONLINE = "sbic.research.sorted_online"

ALGORITHMS: dict[str, AlgorithmEntry] = {
    entry.name: entry
    for entry in (
        # In the order of the paper's Table 2.
        AlgorithmEntry(
            "majority",
            "MAJ",
            "sbic.infer.dawid_skene",
            in_paper=True,
            any_classes=True,
            online=ONLINE_FORMS,
            moves_one_task=True,
        ),
        AlgorithmEntry("em", "EM", BASELINES, in_paper=True, online=ONLINE_FORMS),
        AlgorithmEntry("amf", "AMF", BASELINES, in_paper=True, online=ONLINE_FORMS),
        AlgorithmEntry("kos", "KOS", BASELINES, in_paper=True, online=ONLINE_FORMS),
        AlgorithmEntry(
            "mc",
            "MC",
            BASELINES,
            in_paper=True,
            is_random=True,
            online=PARTICLE_FILTER,
        ),
        AlgorithmEntry(
            "fast-sbic",
            "Fast SBIC",
            "sbic.infer.fast_sbic",
            in_paper=True,
            is_random=True,
            online=ONLINE_FORMS,
            moves_one_task=True,
        ),
        AlgorithmEntry(
            "sorted-sbic",
            "Sorted SBIC",
            "sbic.research.sorted_sbic",
            in_paper=True,
            is_random=True,
            online=SORTED_ONLINE,
        ),
        AlgorithmEntry("te", "TE", "sbic.research.triangular", in_paper=True),
        # Not in the paper.
        AlgorithmEntry(
            "settled",
            "Settled",
            "sbic.infer.settled",
            any_classes=True,
            settles=True,
            online=ONLINE_FORMS,
            moves_one_task=True,
        ),
        AlgorithmEntry(
            "settled-live",
            "Settled, live",
            "sbic.infer.settled",
            is_random=True,
            any_classes=True,
            online=ONLINE_FORMS,
            moves_one_task=True,
        ),
        AlgorithmEntry("dawid-skene", "Dawid-Skene", "sbic.infer.dawid_skene", any_classes=True),
    )
}

IN_PAPER = {name: entry for name, entry in ALGORITHMS.items() if entry.in_paper}
ONLINE = tuple(name for name, entry in ALGORITHMS.items() if entry.online)
"""The names of the algorithms that have an online form."""


def default_algorithm(are_signs: bool) -> AlgorithmName:
    """Return the algorithm to use unless one is chosen: it depends on the classes.

    >>> default_algorithm(are_signs=True), default_algorithm(are_signs=False)
    ('fast-sbic', 'settled')
    """
    return "fast-sbic" if are_signs else "settled"
