"""A task stage without a worker stage: votes come from other instances."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from orjson import loads

from sbic.classes import SIGNS
from sbic.engine.engine import Engine
from sbic.instance.crowd import Crowd
from sbic.instance.tasks import NO_RULES, StopRules, TaskStage
from sbic.wire.changelogs import encode_facts
from sbic.wire.columns import Names
from sbic.wire.tasks import Description, encode_task, task_parser
from sbic.wire.votes import Votes, encode_votes
from tests.stages.simulated.project import PRIOR

Event = float | Description
"""A vote on t1, or what a user says of it."""

parse = task_parser(SIGNS)


def vote_on(task: str, vote: float, offset: int) -> bytes:
    """A record with one vote of a worker elsewhere."""
    numbers = np.array([1], "<i2"), np.array([offset]), np.array([offset]), np.array([vote])
    return encode_votes(
        Votes(0, Names.of([task]), Names.of([f"w{offset}"]), *numbers, counts=np.empty((1, 0)))
    )


class LoneTasks:
    """The tasks of one partition, recovered from `evidence`, to which more is added."""

    def __init__(
        self,
        rules: StopRules = NO_RULES,
        evidence: Sequence[bytes] = (),
        *,
        generation: int = 1,
        spent: bool = False,
    ) -> None:
        self.crowd = Crowd(Engine("fast-sbic", prior=PRIOR), SIGNS, partitions=1)
        self.stage = TaskStage(self.crowd, rules)
        self.evidence = list(evidence)
        self.stage.open(0)
        self.stage.restore(0, [(0, value) for value in evidence])
        while self.crowd.engine.refresh_due():
            pass
        self.stage.ready([0], generation)
        self.stage.spent = spent

    def successor(self, rules: StopRules, generation: int, *, spent: bool = False) -> "LoneTasks":
        """Who owns the partition next; its rules have been applied to all tasks."""
        next_one = LoneTasks(rules, self.evidence, generation=generation, spent=spent)
        next_one.stage.apply_rules_to_all(0)
        next_one.publish()
        return next_one

    def feed(self, events: Sequence[Event], start: int = 0) -> None:
        """Have votes of one source, and descriptions, at successive offsets."""
        for offset, event in enumerate(events, start):
            if isinstance(event, float):
                self.count("t1", event, offset)
            else:
                self.describe(event, offset)

    def count(self, task: str, vote: float, offset: int) -> None:
        """Count a vote."""
        value = vote_on(task, vote, offset)
        counted = self.stage.count(0, [value])
        if counted.new:
            self.evidence.append(value)
        self.publish()

    def describe(self, description: Description, offset: int) -> None:
        """Heed a description."""
        parsed = parse(None, encode_task(description))
        self.stage.describe(0, parsed, offset, offset)
        self.publish()

    def publish(self) -> None:
        """Apply the rules to the tasks to publish, and add the facts to the evidence."""
        self.stage.apply_rules(self.crowd.moved())
        self.evidence += [encode_facts(facts) for _, facts in self.stage.facts()]

    def apply_rules_to_all(self) -> list[str]:
        """The tasks that a rule closes."""
        return [self.crowd.tasks.names[i] for i in self.stage.apply_rules_to_all(0).tolist()]

    def posterior(self, task: str = "t1") -> dict[str, Any]:
        """What is published of a task; the probability, which follows by differences, rounded."""
        [value] = self.stage.posteriors(self.crowd.number_tasks([task])).values
        found: dict[str, Any] = loads(value)
        return {**found, "probability": round(found["probability"], 12)}

    def posteriors(self) -> list[dict[str, Any]]:
        """What is published of all tasks."""
        return [self.posterior(task) for task in list(self.crowd.tasks.names)]
