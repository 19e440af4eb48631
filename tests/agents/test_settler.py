"""An instance says that it is settled only while it is."""

from types import SimpleNamespace
from typing import cast

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
