"""Rebalances and recovery, as the tables and agents do them."""

from collections.abc import Callable, Iterable

from tests.stages.simulated.log import CHANGELOGS, INPUTS
from tests.stages.simulated.processor import Processor, votes_in


class Instance(Processor):
    """One instance, which owns the partitions that `assign` gave it."""

    def assign(self, partitions: set[int]) -> None:
        """Take an assignment as the tables do: drop what is revoked, open what is new."""
        missed, self.missed, self.is_member = self.missed, False, True
        if self.is_void:
            self.is_void = False
            for topic, known in self.restored.items():
                self.forget(topic, set(known))
        for topic, known in self.restored.items():
            self.forget(
                topic, (set(known) - partitions) | (self.diverged[topic] if missed else set())
            )
            for partition in partitions - set(known):
                known[partition] = 0
                self.open(topic, partition)
        self.done = {}
        self.positions = {
            (topic, partition): self.log.committed[topic, partition]
            for topic in INPUTS
            for partition in partitions
        }

    def forget(self, topic: str, partitions: set[int]) -> None:
        """Drop partitions of a table."""
        for partition in partitions:
            del self.restored[topic][partition]
            self.diverged[topic].discard(partition)
            self.close(topic, partition)

    def open(self, topic: str, partition: int) -> None:
        """Open a partition of a table, as the agents do."""
        if topic == "answers":
            self.workers.open(partition)
        else:
            self.tasks.open(partition)

    def close(self, topic: str, partition: int) -> None:
        """Close a partition of a table, as the agents do."""
        if topic == "answers":
            self.workers.close(partition)
        else:
            self.exchange.release(partition)
            self.tasks.close(partition)

    def restore(self, topic: str, partition: int, most: int | None = None) -> None:
        """Restore the next records of a changelog, at the most `most`."""
        known = self.restored[topic]
        records = self.log[topic][partition][known[partition] :][:most]
        known[partition] += len(records)
        sure = False
        while records:
            if topic == "answers":
                values = [record.value for record in records]
                restored = self.workers.restore(partition, values, sure=sure)
            else:
                pairs = [(record.timestamp, record.value) for record in records]
                restored = self.tasks.restore(partition, pairs, sure=sure)
            self._reject(topic, partition, restored)
            records = records[restored.records :]
            self.ask()
            sure = True

    def restore_all(self, topics: Iterable[str] = CHANGELOGS) -> None:
        """Restore the changelogs to their ends."""
        for topic in topics:
            for partition in self.partitions:
                self.restore(topic, partition)

    def workers_ready(self, take_over: Callable[[set[int]], None] = lambda _: None) -> None:
        """Get ready as the worker agent does; the policy agent calls `take_over` in between."""
        while self.refresh():
            pass
        for partition in self.partitions:
            self.workers.ready(partition)
        take_over(set(self.partitions))
        for partition in self.partitions:
            state = self.workers.partitions[partition]
            for answers in state.last_answers:
                for write in votes_in(answers.votes):
                    self.log.write(write)
            state.last.clear()

    def tasks_ready(self, generation: int) -> None:
        """Get ready as the task agent does, until all estimates are published."""
        self.tasks.ready(self.partitions, generation)
        self.crowd.touched.add(self.crowd.number_tasks(sorted(self.withheld)))
        self.withheld.clear()
        self.tasks.check_budget()
        self.apply_rules_to(self.partitions)
        self.exchange.update_sums()
        self.group.tells_all = True
        self.flush()

    def count_unread(self) -> None:
        """Count the votes that are not read yet, as the task agent does last."""
        for partition in self.partitions:
            self.count_votes(partition)
            self.positions["votes", partition] = self.log.committed["votes", partition]
            self.publish()
