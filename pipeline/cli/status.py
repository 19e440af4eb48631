"""`sbic status`: how the project is doing, on one screen."""

import click

from pipeline.cli.options import given_options
from pipeline.project.given import Given

SETTINGS = (
    *("broker", "prefix", "classes", "algorithm", "alpha", "beta", "prior", "class_prior"),
    *("repeats", "policy", "seed", "lease_seconds", "gold_rate"),
    *("stop_confidence", "stop_labels", "budget", "block_below", "block_after"),
)


@click.command("status", short_help="How the project is doing, on one screen.")
@click.option("--json", "as_json", is_flag=True, help="As JSON: see schemas/status.schema.json.")
@click.option("--watch", is_flag=True, help="Update the screen until Ctrl-C.")
@click.option(
    "--every",
    type=click.FloatRange(min=0.5),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="For --watch: how often.",
)
@given_options(*SETTINGS)
def command(given: Given, as_json: bool, watch: bool, every: float) -> None:
    """Show the status of a project: labels, tasks, expected errors, workers and instances.

    Everything is read from Kafka; no access to the instances is needed. The command reads all
    posteriors and workers once; with --watch only new records after that.

    \b
    labels        counted in posteriors, in the topic, and per second in the last minute
    wrong         predictions expected to be wrong: the sum of 1 - max p over all tasks
    settled       whether all instances report that no probability moves any more
    waiting       the lag of the group: records not processed yet, by topic
    disputed      the least certain tasks with two labels or more
    workers       best by the lower end of their 95 % interval, worst by the upper end

    \b
    Examples:
      sbic status
      sbic status --watch
      sbic status --json | jq '.tasks.open, .expected_wrong'
    """
    import asyncio
    import signal

    from orjson import dumps
    from rich.console import Console

    from pipeline.cli.connected import in_project, run_connected
    from pipeline.status.reading import reading_status
    from pipeline.status.report import Summary
    from pipeline.status.screen import StatusScreen

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(highlight=False)
    settings = in_project(given)

    def show(summary: Summary) -> None:
        if as_json:
            click.echo(dumps(summary.as_object()).decode())
            return
        if watch and console.is_terminal:
            console.clear()
        console.print(StatusScreen(summary))

    async def run() -> None:
        async with reading_status(settings) as reader:
            show(await reader.update())
            while watch:
                await asyncio.sleep(every)
                show(await reader.update())

    try:
        run_connected(run())
    except KeyboardInterrupt:
        if not watch:
            raise
