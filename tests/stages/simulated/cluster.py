"""Several instances in one group."""

from collections.abc import Sequence

from tests.stages.simulated.log import CHANGELOGS, Log
from tests.stages.simulated.member import SimulatedMember
from tests.stages.simulated.project import SimulatedProject


class SimulatedCluster:
    """Instances of one group; partition p of all topics belongs to one of them."""

    def __init__(self, log: Log, project: SimulatedProject) -> None:
        self.log = log
        self.project = project
        self.members: list[SimulatedMember] = []
        self.stalled: list[SimulatedMember] = []
        self.generation = 0

    def owner(self, partition: int) -> SimulatedMember:
        """The instance that owns a partition."""
        return next(member for member in self.members if partition in member.partitions)

    def rebalance(self, members: Sequence[SimulatedMember], owners: Sequence[int]) -> None:
        """Make these the members; `owners` has the number of each partition's member.

        An instance that stays in the group publishes and commits everything first.
        """
        for member in members:
            member.missed = not member.is_member
            member.flush()
            member.commit()
        for instance in self.members:
            instance.is_member = instance in members
        self.members = list(members)
        self.generation += 1
        for number, member in enumerate(members):
            whose = {p for p, owner in enumerate(owners) if owner % len(members) == number}
            member.assign(whose)
        for number, member in enumerate(members):
            in_order = CHANGELOGS if owners[number % len(owners)] % 2 else CHANGELOGS[::-1]
            member.restore_all(in_order)
            member.workers_ready()
            member.tasks_ready(self.generation)
        for member in members:
            if member.partitions and member.exchange.missing:
                member.hear_all()
                assert not member.exchange.missing
            member.count_unread()

    def settle(self) -> None:
        """Let everything be delivered and come to rest."""
        size = -1
        while size != (size := sum(len(p) for topic in self.log.topics.values() for p in topic)):
            for member in self.members:
                for partition in member.partitions:
                    member.take_labels(partition)
                    member.heed(partition)
                    member.enlist(partition)
                    member.count_votes(partition)
                while member.refresh():
                    pass
                member.flush()
                member.hear_all()
                while member.refresh():
                    pass
                if member.crowd.engine.has_news:
                    member.flush()
