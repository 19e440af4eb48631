"""An instance says that it is settled only while it is, and settles when nobody waits for it."""

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from sbic.engine.engine import Engine
from sbic.runtime.agents import Settler
from sbic.runtime.publisher import Publisher


async def test_a_label_makes_a_settled_instance_unsettled_at_once() -> None:
    engine = Engine("settled", classes=2)
    tasks = SimpleNamespace(is_restored=True)
    instance = SimpleNamespace(crowd=SimpleNamespace(engine=engine), tasks=tasks)
    publisher = SimpleNamespace(instance=instance)
    settler = Settler(cast(Publisher, publisher), lambda: True)
    engine.refresh_due()
    assert settler.is_at_rest
    engine.take([0, 0, 1], [0, 1, 0], [1, 1, 0])
    assert not settler.is_at_rest
    while engine.refresh_due():  # after the tasks comes what is published of them
        assert not settler.is_at_rest
    assert settler.is_at_rest
    tasks.is_restored = False
    assert not settler.is_at_rest


async def test_a_stop_or_a_rebalance_does_not_wait_until_all_tasks_are_refreshed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sbic.runtime.agents.SETTLED_AT_ONCE", 1)
    engine = Engine("settled", classes=2)
    numbers = np.random.default_rng(1)
    for _ in range(20):
        engine.take(*(numbers.integers(0, most, 10) for most in (20, 6, 2)))
    tasks = SimpleNamespace(is_restored=True)
    instance = SimpleNamespace(crowd=SimpleNamespace(engine=engine), tasks=tasks)
    groups = SimpleNamespace(is_flushing=True, notify=lambda: None)
    publisher = SimpleNamespace(instance=instance, groups=groups, took_labels_at=0.0)
    settler = Settler(cast(Publisher, publisher), lambda: True)
    steps = 0
    refresh_due = engine.refresh_due

    def counted(labels: int) -> bool:
        nonlocal steps
        steps += 1
        groups.is_flushing = steps == 5  # a rebalance begins
        return refresh_due(labels)

    monkeypatch.setattr(engine, "refresh_due", counted)
    await settler._refresh()
    assert steps == 0
    groups.is_flushing = False
    await settler._refresh()
    assert (steps, engine.is_at_rest) == (5, False)
    groups.is_flushing = False
    await settler._refresh()
    assert engine.is_at_rest
