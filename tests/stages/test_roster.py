"""The owner's word on workers: over the rule's, before any label, and for every later owner."""

import pytest
from orjson import loads

from sbic.instance.requests import Rules
from sbic.instance.survey import Survey, Surveyor
from sbic.wire.partitions import partition_of
from sbic.wire.workers import RosterEntry, encode_roster
from tests.stages.assigning import AssigningInstance
from tests.stages.simulated.log import Log, Write
from tests.stages.simulated.member import SimulatedCluster, SimulatedMember
from tests.stages.simulated.project import SimulatedProject

PARTITIONS = 4
RULE = Rules(block_below=0.5, block_after=5)
BLOCKED, UNBLOCKED, BY_RULE = (
    RosterEntry(blocked=True),
    RosterEntry(blocked=False),
    RosterEntry(name="Ann"),
)


def with_tasks(rules: Rules = RULE) -> AssigningInstance:
    """Thirty tasks; ann is wrong and bob right on the gold of five, so that the rule blocks ann."""
    assigning = AssigningInstance(rules)
    assigning.describe({"task": f"t{number}", "gold": 1} for number in range(5))
    assigning.describe({"task": f"t{number}"} for number in range(5, 30))
    for number in range(5):
        assigning.hand_in("ann", f"t{number}", -1)
        assigning.hand_in("bob", f"t{number}", 1)
    return assigning


def is_blocked(assigning: AssigningInstance, worker: str) -> bool:
    [given] = assigning.ask(worker)
    return bool(given["task"] is None and given["reason"] == "worker-blocked")


def test_the_owners_word_goes_before_the_rules() -> None:
    assigning = with_tasks()
    assert is_blocked(assigning, "ann")
    assert not is_blocked(assigning, "bob")
    assigning.instance.enlist_worker("ann", UNBLOCKED)
    assigning.instance.enlist_worker("bob", BLOCKED)
    assert not is_blocked(assigning, "ann")
    assert is_blocked(assigning, "bob")
    assigning.instance.enlist_worker("ann", BY_RULE)
    assigning.instance.enlist_worker("bob", BY_RULE)
    assert is_blocked(assigning, "ann")
    assert not is_blocked(assigning, "bob")


def test_a_tombstone_withdraws_what_was_said() -> None:
    assigning = with_tasks()
    assigning.instance.enlist_worker("bob", BLOCKED)
    assigning.instance.enlist_worker("bob", None)
    assert not is_blocked(assigning, "bob")


def test_a_worker_is_blocked_before_the_first_label_and_without_a_rule() -> None:
    assigning = with_tasks(Rules())
    assigning.instance.enlist_worker("new", BLOCKED)
    assert is_blocked(assigning, "new")
    assigning.instance.enlist_worker("new", UNBLOCKED)
    assert not is_blocked(assigning, "new")


def test_a_successor_knows_the_roster_before_the_first_answer() -> None:
    assigning = with_tasks()
    assigning.instance.enlist_worker("bob", BLOCKED)
    assigning.instance.enlist_worker("new", BLOCKED)
    assigning.instance.enlist_worker("ann", UNBLOCKED)
    assigning = assigning.successor(RULE)
    assert [is_blocked(assigning, worker) for worker in ("ann", "bob", "new")] == [
        False,
        True,
        True,
    ]


def test_the_record_of_a_worker_says_what_the_owner_says() -> None:
    instance = with_tasks().instance
    assert {"blocked", "name"}.isdisjoint(instance.worker("ann"))
    instance.enlist_worker("ann", RosterEntry(blocked=False, name="Ann"))
    last = {record.key: record.value for part in instance.log["workers"] for record in part}
    told = loads(last[b"ann"] or b"")
    assert (told["blocked"], told["name"]) == (False, "Ann")


@pytest.mark.parametrize(("entry", "blocked"), [(BLOCKED, 2), (UNBLOCKED, 1), (BY_RULE, 1)])
def test_blocked_workers_are_counted_as_they_are_treated(entry: RosterEntry, blocked: int) -> None:
    instance = with_tasks().instance
    instance.enlist_worker("bob", entry)
    instance.enlist_worker("nobody", BLOCKED)  # without labels: nobody asks as them
    survey = Survey.empty(2)
    for _ in Surveyor(instance.tasks, RULE.block_below, RULE.block_after).steps(survey):
        pass
    assert survey.blocked_workers == blocked


def test_every_owner_of_a_worker_knows_what_is_said_of_them() -> None:
    log = Log(PARTITIONS)
    cluster = SimulatedCluster(log, SimulatedProject())
    one, two = (SimulatedMember(log, SimulatedProject()) for _ in range(2))
    cluster.rebalance([one, two], [0, 1, 0, 1])
    home = log.enlist("ann", BLOCKED)
    log.enlist("ann", UNBLOCKED)
    owner = cluster.owner(home)
    owner.enlist(home, most=1)
    assert owner.crowd.roster.of(home, "ann") == BLOCKED
    other = two if owner is one else one
    cluster.rebalance([other], [0] * PARTITIONS)  # the owner has crashed: nothing is committed
    assert other.crowd.roster.of(home, "ann") == UNBLOCKED
    other.enlist(home, most=1)  # the first record once more: older than what is known
    assert other.crowd.roster.of(home, "ann") == UNBLOCKED
    assert owner.crowd.roster.of(home, "ann") == BLOCKED
    cluster.rebalance([other, owner], [0, 0, 0, 0])
    assert owner.crowd.roster.partitions == {}


def test_bad_records_are_dead_letters_once_and_misplaced_ones_count_at_home() -> None:
    log = Log(PARTITIONS)
    cluster = SimulatedCluster(log, SimulatedProject())
    cluster.rebalance([SimulatedMember(log, SimulatedProject()) for _ in range(2)], [0, 1, 0, 1])
    home = partition_of(b"ann", PARTITIONS)
    wrong = (home + 1) % PARTITIONS
    bad = [b"{", b"[]", b'{"worker": "ann", "blocked": "yes"}', b'{"worker": "ann", "name": ""}']
    for value in bad:
        log.write(Write("roster", home, value, b"ann"))
    log.write(Write("roster", wrong, encode_roster("ann", BLOCKED), b"x"))
    log.write(Write("roster", wrong, None, None))
    cluster.settle()
    for member in cluster.members:
        member.commit()
    assert cluster.owner(home).crowd.roster.of(home, "ann") == BLOCKED
    assert cluster.owner(wrong).crowd.roster.of(wrong, "ann") == RosterEntry()
    cluster.rebalance([SimulatedMember(log, SimulatedProject())], [0] * PARTITIONS)
    cluster.settle()
    letters = [record.value for records in log["dead-letters"] for record in records]
    assert sorted(letters, key=str) == sorted([*bad, None], key=str)
    assert cluster.members[0].crowd.roster.of(home, "ann") == BLOCKED
