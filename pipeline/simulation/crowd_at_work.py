"""Simulated workers in a closed loop: request a task, think, answer, and let the next one in."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from time import monotonic

from pipeline.classes import SIGNS, Classes
from pipeline.kafka.asking import Asker
from pipeline.kafka.sending import Label, Sent
from pipeline.simulation.workers import Habits, Response, SimulatedWorker, Turns

ALL_DONE = frozenset({"no-open-task", "budget-spent"})  # other reasons concern one worker only


@dataclass(frozen=True)
class Plan:
    """The size of a crowd and of its work; `at_once` workers work at the same time.

    `class_prior` has the frequency of each class, in order; without it, all are equally frequent.
    """

    tasks: int = 1000
    workers: int = 2000
    labels_per_task: int = 20
    at_once: int = 20
    habits: Habits = field(default_factory=Habits)
    seed: int = 0
    classes: Classes = SIGNS
    class_prior: tuple[float, ...] | None = None

    @property
    def labels(self) -> int:
        """The total number of labels."""
        return self.tasks * self.labels_per_task

    def draw_truth(self, name: str) -> dict[str, int | str]:
        """The truth of each task, as it is on the wire."""
        rng = Random(f"{self.seed}/tasks")
        labels = self.classes.labels
        if self.class_prior is None:
            truths = [rng.choice(labels) for _ in range(self.tasks)]
        else:
            truths = rng.choices(labels, self.class_prior, k=self.tasks)
        return {f"{name}-task-{number:05}": truth for number, truth in enumerate(truths)}

    def draw_workers(self, name: str) -> dict[str, SimulatedWorker]:
        """The workers; the same seed gives the same workers, whatever the name of the run."""
        visits = self.labels // self.workers
        workers = {}
        for number in range(self.workers):
            worker = f"{name}-worker-{number:05}"
            rng = Random(f"{self.seed}/workers/{number}")
            workers[worker] = SimulatedWorker(worker, self.habits, visits, rng, self.classes)
        return workers


class CrowdAtWork:
    """Works until the labels of the plan are given, or no worker or no task is left.

    `came_to` counts the outcomes: labels, skips, repeats, drop-outs, and each reason for getting no
    task. `given` is called with every acknowledged label, except skips and repeats.
    """

    def __init__(
        self,
        plan: Plan,
        truth: Mapping[str, int | str],
        workers: Mapping[str, SimulatedWorker],
        asker: Asker,
        given: Callable[[Sent], None],
    ) -> None:
        self.came_to: Counter[str] = Counter()
        self.waits: list[float] = []
        self.policy: str | None = None
        self._truth = truth
        self._workers = workers
        self._asker = asker
        self._given = given
        self._at_once = plan.at_once
        self._to_give = plan.labels
        self._turns = Turns(workers, Random(f"{plan.seed}/turns"))

    async def work(self) -> None:
        """Run the plan."""
        try:
            async with asyncio.TaskGroup() as seats:
                for _ in range(self._at_once):
                    seats.create_task(self._seat())
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None  # the others failed for the same reason

    async def _seat(self) -> None:
        """Let one worker after the other answer one task."""
        while self._to_give > 0 and (name := self._turns.next()) is not None:
            self._to_give -= 1
            if not await self._visit(self._workers[name]):
                self._to_give += 1
            if self.came_to.keys() & ALL_DONE:
                return

    async def _visit(self, worker: SimulatedWorker) -> bool:
        """Request a task, think and answer; returns whether a label was given."""
        answer = await self._asker.ask(worker.name)
        self.waits.append(answer.seconds)
        if answer.task is None:
            return self._leave(worker, str(answer.reason))
        self.policy = answer.policy
        truth = self._truth.get(answer.task)
        # a task that was registered by someone else is skipped
        response = Response(0.0, (0,)) if truth is None else worker.respond(truth)
        if not response.labels:
            return self._leave(worker, "drop-outs")
        await asyncio.sleep(response.seconds)
        return await self._answer(worker, answer.task, response.labels)

    def _leave(self, worker: SimulatedWorker, why: str) -> bool:
        self.came_to[why] += 1
        self._turns.leave(worker.name)
        return False

    async def _answer(
        self, worker: SimulatedWorker, task: str, labels: tuple[int | str, ...]
    ) -> bool:
        first, *again = labels
        at = monotonic()
        place = await self._asker.answer(worker.name, task, first)
        for label in again:
            await self._asker.answer(worker.name, task, label)
        self._turns.done(worker.name)
        if first == 0:
            self.came_to["skips"] += 1
            return False
        self.came_to["labels"] += 1
        if again:
            self.came_to["repeats"] += 1
        self._given(Sent(at, place.partition, place.offset, [Label(task, worker.name, first)]))
        return True
