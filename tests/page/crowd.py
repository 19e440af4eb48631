"""A small crowd for the page, with hostile names among its tasks and workers."""

from collections.abc import Iterable
from random import Random

Label = tuple[str, str, int | str]

MARKUP = '"><img src=x onerror="document.title=1;alert(1)"><script>alert(2)</script>'
ARABIC = "مهمة \u202e reversed \u2066 123"
LONG = "long-" + "W" * 251  # as long as an id may be
STACKED = "Z" + "\u0310\u0315\u031b\u0334\u0489" * 20 + "algo"
CONTROLS = "new\nline\ttab\u200b\u0007"
HOSTILE = (
    MARKUP,
    ARABIC,
    LONG,
    STACKED,
    CONTROLS,
    "__proto__",
    "javascript:alert(3)",
    "../status?x",
    "..",
)

TASKS = 60
WORKERS = 16
ANSWERS = (6, 10)  # of a task, at least and at most


def names_of(kind: str, count: int) -> list[str]:
    """The bad names, and ordinary ones for the rest."""
    return [*HOSTILE, *(f"{kind}-{number:02}" for number in range(count - len(HOSTILE)))]


def labels(classes: Iterable[int | str], seed: int = 0) -> list[Label]:
    """Answers of workers of whom the first are often right, and the last guess."""
    random, choices = Random(seed), list(classes)
    workers = names_of("worker", WORKERS)
    right = {worker: 0.95 - 0.65 * place / WORKERS for place, worker in enumerate(workers)}
    given: list[Label] = []
    for task in names_of("task", TASKS):
        truth = random.choice(choices)
        for worker in random.sample(workers, random.randint(*ANSWERS)):
            said = truth if random.random() < right[worker] else random.choice(choices)
            given.append((task, worker, said))
    return given
