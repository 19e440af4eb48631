"""A worker with many answers gets the task that a look at all tasks would find, at little cost."""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbic.engine.labels import Ints
from sbic.policy import order as layout
from sbic.policy import policy as progress
from sbic.policy.policy import AnswerSet, Uncertainty

TASKS = 200
ANSWERED = 120  # by each worker, at first
WORKERS = ["ann", "bob", "cas"]
tasks = st.integers(0, TASKS // 8 - 1).map(lambda number: 8 * number)  # few, to move again
workers = st.sampled_from(WORKERS)
leads = st.integers(0, 6)
ask = st.tuples(st.just("ask"), workers, st.integers(1, 3), leads)
update = st.tuples(st.just("update"), workers, tasks, leads)
steps = st.lists(
    st.one_of(
        ask,
        ask,
        update,
        update,
        st.tuples(st.just("update often"), workers, tasks, leads),
        st.tuples(st.just("answer"), workers, tasks, leads),
        st.tuples(st.just("take back"), workers, tasks, leads),
        st.tuples(st.just("forget"), workers, tasks, leads),
        st.tuples(st.just("remove"), workers, tasks, leads),
    ),
    min_size=20,
    max_size=60,
)


SEED = 1
NOBODY = AnswerSet()


def place_among_equals(task: str, labels: int, in_flight: int) -> int:
    """The pseudo-random number that every process has to come to."""
    digest = blake2b(repr(task).encode(), digest_size=7, key=str(SEED).encode()).digest()
    drawn = int.from_bytes(digest, "big")
    step = labels + (in_flight << 32)
    product = (drawn ^ step * 0x9E3779B97F4A7C15) * 0xD6E8FEB86659FD93
    return (product >> 32) & 0xFFFFFFFFFFFFFFF


class Literal:
    """A policy beside all of its entries, for a look at each of them."""

    def __init__(self) -> None:
        self.names = [f"t{task}" for task in range(TASKS)]
        self.policy = Uncertainty(self.names, SEED, expected_weight=0.5)
        self.entries: dict[int, tuple[int, int, int]] = {}
        self.labels = [0] * TASKS
        self.answered = {worker: AnswerSet() for worker in WORKERS}

    def update(self, task: int, lead: float, in_flight: int = 0) -> None:
        labels = self.labels[task]
        self.policy.update(task, labels, lead, in_flight)
        key = int((lead + 0.5 * in_flight) * 2**30 + 0.5)
        self.entries[task] = key, place_among_equals(self.names[task], labels, in_flight), task

    def remove(self, task: int) -> None:
        self.policy.remove(task)
        self.entries.pop(task, None)

    def first(self, answered: set[int]) -> int | None:
        return next((e[2] for e in sorted(self.entries.values()) if e[2] not in answered), None)

    def take(self, verb: str, worker: str, number: int, lead: int) -> None:
        answered = self.answered[worker]
        if verb == "ask":
            self.ask(worker, number, lead)
        elif verb == "answer":
            answered.add(number)
        elif verb == "take back":
            answered.discard(number)
            self.policy.allow(number, worker)
        elif verb == "forget":
            answered -= set(range(number, number + 20))
            self.policy.forget()
        elif verb == "update":
            self.update(number, lead / 2, in_flight=number % 3)
        elif verb == "update often":
            for more in range(20):  # more than the changes that are kept
                self.update(number, lead / 2 + more % 2)
        else:
            self.remove(number)

    def ask(self, worker: str, times: int, lead: float) -> None:
        """Ask, answer and ask again; a label may move its task, or leave it where it is."""
        answered = self.answered[worker]
        for _ in range(times):
            task = self.policy.choose(answered, worker)
            assert task == self.first(answered)
            if task is None:
                break
            answered.add(task)
            self.labels[task] += 1
            if lead:
                self.update(task, lead / 2)


@contextmanager
def small_limits() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "WORTH", 4)
        patch.setattr(progress, "WORKERS", 2)
        patch.setattr(layout, "CHANGES", 16)
        patch.setattr(layout, "LONG", 6)
        yield


@given(steps)
def test_workers_get_what_a_look_at_all_tasks_finds(
    steps: list[tuple[str, str, int, int]],
) -> None:
    with small_limits():
        literal = Literal()
        for task in range(TASKS):
            literal.update(task, task / TASKS)
        for worker in WORKERS:
            literal.answered[worker].update(range(ANSWERED))
            literal.ask(worker, 1, lead=0)
        for step in steps:
            literal.take(*step)
            assert literal.policy.choose(NOBODY) == literal.first(set())
            assert len(literal.policy) == len(literal.entries)
        for worker in WORKERS:
            literal.ask(worker, TASKS, lead=0)


class CountedAnswers(AnswerSet):
    """Answers that count the questions about them."""

    questions = 0

    def first_new(self, tasks: Ints) -> int:
        place = super().first_new(tasks)
        self.questions += place + 1
        return place


def crowd(tasks: int, answers: int) -> tuple[Uncertainty, CountedAnswers]:
    """A policy, and a worker who has answered the most uncertain tasks."""
    policy = Uncertainty(range(tasks + 1), SEED)
    for task in range(tasks):
        policy.update(task, 0, task / tasks)
    return policy, CountedAnswers(range(answers))


def test_what_was_passed_over_once_is_not_looked_at_again() -> None:
    policy, answered = crowd(4000, 2000)
    assert policy.choose(answered, "ann") == 2000
    answered.questions = 0
    rng = Random(1)
    for request in range(1, 500):
        task = policy.choose(answered, "ann")
        assert task == policy.choose(AnswerSet(answered))
        assert task is not None
        answered.add(task)
        for moved in (task, *rng.sample(range(4000), 5)):
            policy.update(moved, request, rng.random())
    assert answered.questions < 500 * 20


def test_who_finds_no_task_left_asks_again_at_no_cost() -> None:
    policy, answered = crowd(1000, 1000)
    assert policy.choose(answered, "ann") is None
    answered.questions = 0
    assert [policy.choose(answered, "ann") for _ in range(10)] == [None] * 10
    assert answered.questions <= 10
    policy.update(1000, 0, 0.5)
    assert policy.choose(answered, "ann") == 1000


def test_an_answer_taken_back_lets_the_worker_get_the_task_again() -> None:
    policy, answered = crowd(1000, 500)
    assert policy.choose(answered, "ann") == 500
    for task in (300, 200):
        answered.remove(task)
        policy.allow(task, "ann")
        policy.allow(task, "bob")  # who has not asked
        assert policy.choose(answered, "ann") == task
    answered -= set(range(100))
    policy.forget()
    assert policy.choose(answered, "ann") == 0


def test_who_comes_back_after_more_changes_than_are_kept_starts_over() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "CHANGES", 1000)
        policy, answered = crowd(5000, 4999)
        assert policy.choose(answered, "ann") == 4999
        answered.remove(0)
        policy.update(0, 1, 0.0)
        for step in range(1000):
            policy.update(1 + step % 10, step, 0.5)
        assert policy.choose(answered, "ann") == 0


def test_nothing_is_kept_of_workers_with_few_answers() -> None:
    policy, _ = crowd(1000, 0)
    for worker in range(100):
        policy.choose(AnswerSet(range(worker)), f"w{worker}")
    assert not policy._progress.by_worker


def test_what_is_kept_of_workers_is_bounded() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "WORTH", 100)
        patch.setattr(progress, "WORKERS", 50)
        policy, answered = crowd(400, 100)
        for worker in range(80):
            policy.choose(answered, worker)
        assert set(policy._progress.by_worker) == set(range(30, 80))


def test_tasks_that_come_before_what_was_passed_over_do_not_fill_the_memory() -> None:
    policy, answered = crowd(4000, 2000)
    policy.choose(answered, "ann")
    for task in range(2000, 4000):
        policy.update(task, 1, 0.0)
        chosen = policy.choose(answered, "ann")
        assert chosen == policy.choose(AnswerSet(answered))
        kept = policy._progress.by_worker.get("ann")
        assert kept is None or len(kept.moved) <= 100
