"""Every algorithm, described once: settings, commands, experiments and tests read this table.

The table needs neither numpy nor numba, so that `sbic --help` stays quick.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from pipeline.inference.algorithm import Algorithm
    from pipeline.inference.online.online import OnlineForm

AlgorithmName = Literal["fast-sbic", "settled"]
"""The algorithms that the engine, and therefore the pipeline, can run."""

STREAMED: tuple[AlgorithmName, ...] = get_args(AlgorithmName)


@dataclass(frozen=True)
class Entry:
    """An algorithm and its properties.

    `title`: its name in tables and figures.
    `in_paper`: whether the paper's Table 2 has it.
    `is_random`: whether the estimate depends on the order of the labels or on the random generator.
    Such an algorithm is judged by its mean error over many runs.
    `any_classes`: whether it takes any number of classes; the others need -1 and 1.
    `settles`: whether it refreshes all tasks until no probability moves. Where an algorithm
    settles, the class prior takes the place of the probability of +1.
    `online`: the module of `pipeline.inference.online` with its online form, if it has one.
    `moves_one_task`: whether a label changes only its own task's score online, not that of all.
    `module`: the module of `pipeline.inference` with the algorithm, where its name differs.
    """

    name: str
    title: str
    in_paper: bool = False
    is_random: bool = False
    any_classes: bool = False
    settles: bool = False
    online: str | None = None
    moves_one_task: bool = False
    module: str | None = None

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
        """Import the function `a_name` of the module `a_name`."""
        algorithm: Algorithm = getattr(
            import_module(f"pipeline.inference.{self.module or self._identifier}"),
            self._identifier,
        )
        return algorithm

    def load_online(self) -> "OnlineForm":
        """Import the function that starts the online form; ValueError where there is none."""
        if self.online is None:
            known = ", ".join(ONLINE)
            raise ValueError(f"{self.name} has no online form; choose from {known}")
        form: OnlineForm = getattr(
            import_module(f"pipeline.inference.online.{self.online}"), self._identifier
        )
        return form

    @property
    def _identifier(self) -> str:
        return self.name.replace("-", "_")


ALGORITHMS: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        # In the order of the paper's Table 2.
        Entry(
            "majority",
            "MAJ",
            in_paper=True,
            any_classes=True,
            online="majority",
            moves_one_task=True,
        ),
        Entry("em", "EM", in_paper=True, online="mean_field"),
        Entry("amf", "AMF", in_paper=True, online="mean_field"),
        Entry("kos", "KOS", in_paper=True, online="kos"),
        Entry("mc", "MC", in_paper=True, is_random=True, online="particle_filter"),
        Entry(
            "fast-sbic",
            "Fast SBIC",
            in_paper=True,
            is_random=True,
            online="engine",
            moves_one_task=True,
        ),
        Entry("sorted-sbic", "Sorted SBIC", in_paper=True, is_random=True, online="sorted_sbic"),
        Entry("te", "TE", in_paper=True),
        # Not in the paper.
        Entry(
            "settled",
            "Settled",
            any_classes=True,
            settles=True,
            online="engine",
            moves_one_task=True,
        ),
        Entry(
            "settled-live",
            "Settled, live",
            is_random=True,
            any_classes=True,
            online="engine",
            moves_one_task=True,
            module="settled",
        ),
        Entry("dawid-skene", "Dawid-Skene", any_classes=True),
    )
}

IN_PAPER = {name: entry for name, entry in ALGORITHMS.items() if entry.in_paper}
ONLINE = tuple(name for name, entry in ALGORITHMS.items() if entry.online)
"""The names of the algorithms that have an online form."""


def default_algorithm(are_signs: bool) -> AlgorithmName:
    """The algorithm to use unless one is chosen: it depends on the classes.

    >>> default_algorithm(are_signs=True), default_algorithm(are_signs=False)
    ('fast-sbic', 'settled')
    """
    return "fast-sbic" if are_signs else "settled"
