"""The simulation behind the page on sizing."""

from dataclasses import replace

from click.testing import CliRunner

from sbic.commands.main import sbic
from sbic.research.sizing import Costs, simulate, size, smallest

COSTS = Costs(label=10.0, vote=2.0, told=1.0, tell=0.5, hear=1.0)


def test_one_instance_is_as_busy_as_its_labels_cost() -> None:
    load = simulate(20_000, 1, COSTS)
    assert abs(load.busiest - 0.2) < 0.01
    assert load.keeps_up


def test_an_instance_with_more_than_it_can_do_falls_behind() -> None:
    load = simulate(200_000, 1, COSTS)
    assert load.busiest > 0.99
    assert load.behind > 1
    assert not load.keeps_up


def test_more_instances_help_until_hearing_of_all_tasks_takes_all_of_the_time() -> None:
    few, many = simulate(100_000, 2, COSTS), simulate(100_000, 8, COSTS)
    assert many.busiest < few.busiest
    assert smallest(1_000_000, COSTS) is None
    found = smallest(1_000_000, replace(COSTS, hear=0.1))
    assert found is not None
    assert found.instances > 10


def test_a_label_is_kept_where_its_worker_is_and_where_its_task_is() -> None:
    alone, shared = size(1_000, 1e6, COSTS), size(150_000, 1e6, COSTS)
    assert alone.memory == COSTS.memory * 1e6
    assert shared.load is not None
    instances = shared.load.instances
    assert shared.memory == COSTS.memory * 1e6 * (2 - 1 / instances) / instances


def test_the_command_prints_a_row_for_each_rate_and_says_what_is_wrong() -> None:
    told = CliRunner().invoke(sbic, ["sizing", "--rate", "1000,20000"])
    assert told.exit_code == 0
    assert "1,000" in told.output
    assert "20,000" in told.output
    refused = CliRunner().invoke(sbic, ["sizing", "--rate", "fast"])
    assert refused.exit_code != 0
