"""Every algorithm by name, so that a table of all of them is a loop."""

from dataclasses import dataclass
from importlib import import_module

from pipeline.inference.algorithm import Algorithm
from pipeline.inference.labels import Labels


@dataclass(frozen=True)
class Entry:
    """An algorithm, what it is called in tables, and whether it varies from run to run.

    `is_random` where the estimate depends on the order of the labels or on the random generator:
    such an algorithm is judged by the mean over many runs. `any_classes` where it takes labels of
    any number of classes; the others need -1 and 1.
    """

    name: str
    title: str
    is_random: bool = False
    any_classes: bool = False
    module: str | None = None

    def takes(self, labels: Labels) -> bool:
        """Whether it can run on labels of these classes.

        >>> pets = Labels.of_answers([("t1", "ann", 2)], ("cat", "dog", "bird"))
        >>> ALGORITHMS["dawid-skene"].takes(pets), ALGORITHMS["em"].takes(pets)
        (True, False)
        """
        return self.any_classes or labels.are_signs

    def load(self) -> Algorithm:
        """The function `a_name` of the module `a_name`, imported only when it is needed."""
        name = self.name.replace("-", "_")
        module = import_module(f"pipeline.inference.{self.module or name}")
        algorithm: Algorithm = getattr(module, name)
        return algorithm


def by_name(*entries: Entry) -> dict[str, Entry]:
    """The entries in their order."""
    return {entry.name: entry for entry in entries}


# In the order of the paper's Table 2.
IN_PAPER = by_name(
    Entry("majority", "MAJ", any_classes=True),
    Entry("em", "EM"),
    Entry("amf", "AMF"),
    Entry("kos", "KOS"),
    Entry("mc", "MC", is_random=True),
    Entry("fast-sbic", "Fast SBIC", is_random=True),
    Entry("sorted-sbic", "Sorted SBIC", is_random=True),
    Entry("te", "TE"),
)

ALGORITHMS = IN_PAPER | by_name(
    Entry("settled", "Settled", any_classes=True),
    Entry("settled-live", "Settled, live", is_random=True, any_classes=True, module="settled"),
    Entry("dawid-skene", "Dawid-Skene", any_classes=True),
)

SIGNS_DEFAULT = "fast-sbic"
CLASSES_DEFAULT = "settled"


def default_algorithm(labels: Labels) -> str:
    """The algorithm to take when nobody chose one: it depends on the classes.

    >>> default_algorithm(Labels.of([("t1", "ann", 1)]))
    'fast-sbic'
    """
    return SIGNS_DEFAULT if labels.are_signs else CLASSES_DEFAULT
