"""`sbic sizing`: the instances, partitions and memory that a rate of labels needs."""

from dataclasses import replace

import click
from rich.console import Console
from rich.table import Table

from sbic.commands.options import BadInput
from sbic.foreign import shown


def _rates(_ctx: click.Context, _param: click.Parameter, text: str) -> list[float]:
    try:
        rates = [float(part) for part in text.split(",")]
    except ValueError:
        raise BadInput(f"--rate must be numbers separated by commas, not {shown(text)}") from None
    if not all(0 < rate <= 1e8 for rate in rates):
        raise BadInput("--rate must be from 0 to 100,000,000 labels per second")
    return rates


@click.command(short_help="How many instances a rate of labels needs.")
@click.option(
    "--rate",
    default="10000,100000,1000000",
    show_default=True,
    callback=_rates,
    help="Labels per second; several separated by commas.",
)
@click.option(
    "--labels",
    type=click.FloatRange(min=0),
    default=1e8,
    show_default=True,
    help="Labels that the project keeps.",
)
@click.option("--label-cost", type=click.FloatRange(min=0), help="µs of CPU for a label.")
@click.option("--hear-cost", type=click.FloatRange(min=0), help="µs to receive an estimate.")
def command(
    rate: list[float], labels: float, label_cost: float | None, hear_cost: float | None
) -> None:
    """Simulate instances with measured costs, and print what each rate needs.

    An instance is a process with a dedicated core, which is busy at most 70 % of the time. `make
    scale` measures the costs on your machine; docs/sizing.md explains them.

    \b
    Examples:
      sbic sizing
      sbic sizing --rate 50000 --labels 2e9 --label-cost 6
    """

    from sbic.research.sizing import Costs, size

    given = {"label": label_cost, "hear": hear_cost}
    costs = replace(Costs(), **{name: cost for name, cost in given.items() if cost is not None})
    table = Table(
        "labels/s", "instances", "busiest", "partitions", "GB each", "MB/s written", "MB/s read"
    )
    for each in rate:
        found = size(each, labels, costs)
        if found.load is None:
            table.add_row(f"{each:,.0f}", "too many", "", "", "", "", "")
            continue
        table.add_row(
            f"{each:,.0f}",
            str(found.load.instances),
            f"{found.load.busiest:.0%}",
            str(found.partitions),
            f"{found.memory / 1e9:.1f}",
            f"{found.written / 1e6:,.0f}",
            f"{found.read / 1e6:,.0f}",
        )
    Console().print(table)
