"""`sbic demo`: the whole pipeline in a minute."""

import click

from pipeline.cli.own_page import page_options, page_port_of

TASKS = 1000
WORKERS = 300
AT_ONCE = 100
SPAMMERS = 0.2

NEXT = """\
What to try next:
  sbic up --open                  the same pipeline, kept running, and its page
  sbic replay labels.csv --wait   your own labels (columns task, worker, label)
  sbic simulate --policy compare  this crowd, under both policies
  sbic watch --from-start         posteriors as they change
  sbic export posteriors          the current state as CSV
  curl localhost:6066/metrics     the metrics of sbic up, for Prometheus
  sbic --help                     everything else"""


@click.command(short_help="See the whole pipeline at work on a simulated crowd.")
@click.option(
    "--instances",
    type=click.IntRange(1, 8),
    default=1,
    show_default=True,
    help="Instances of each project.",
)
@click.option(
    "--labels",
    type=click.IntRange(2000, 200_000),
    default=60_000,
    show_default=True,
    help="Labels that the crowd gives.",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=1),
    default=500,
    show_default=True,
    help="Labels per second in the first part; the workers pause to keep it.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@page_options
def command(
    instances: int,
    labels: int,
    rate: float,
    seed: int,
    gateway_port: int | None,
    is_opened: bool,
) -> None:
    """See the whole pipeline at work: Kafka, instances, and a simulated crowd.

    1,000 tasks, 300 workers: four of five are right with a probability drawn from Beta(4, 3), which
    is 57 % on average, and the others toss a coin. Every label goes to two projects, one with Fast
    SBIC and one with settled, each with its own instance. Majority vote is computed on the same
    labels, and the errors of the three are shown as they fall.

    The workers request tasks and get those that Fast SBIC is least certain of (the uncertainty
    policy), until a third of the labels is given; then the rest is sent at once, on random tasks.
    Latency is measured in the first part with Fast SBIC, without the first fifth as a warm-up. The
    page shows both projects while the command runs. Nothing is kept.

    \b
    Examples:
      sbic demo --open
      sbic demo --instances 2 --labels 100000
    """
    from shutil import which
    from time import monotonic

    from rich.console import Console

    from pipeline.cli.connected import run_connected
    from pipeline.cli.own_broker import own_broker
    from pipeline.local.gateway import page_at
    from pipeline.local.java import KAFKA_VERSION
    from pipeline.settings import Settings
    from pipeline.simulation.crowd_at_work import Plan
    from pipeline.simulation.demo import Demo, DemoFailed
    from pipeline.simulation.demo_screen import Screen, summary
    from pipeline.simulation.workers import Habits

    console = Console(highlight=False)
    page_port = page_port_of(gateway_port)
    habits = Habits(think_seconds=AT_ONCE / rate, spammers=SPAMMERS)
    plan = Plan(TASKS, WORKERS, max(1, labels // 3 // TASKS), AT_ONCE, habits, seed)
    console.print(f"Starting Apache Kafka {KAFKA_VERSION} on this machine ...")
    start = monotonic()
    try:
        with own_broker() as broker:
            console.print(f"Kafka is ready after {monotonic() - start:.1f} s at {broker.url}")
            accuracy = habits.accuracy
            settings = Settings(broker=broker.url, alpha=accuracy.alpha, beta=accuracy.beta)
            each = "one instance each" if instances == 1 else f"{instances} instances each"
            console.print(
                f"{WORKERS} workers answer {TASKS:,} tasks. Their {labels:,} labels go through "
                f"Kafka\nto two projects, Fast SBIC and settled, with {each}",
                soft_wrap=True,
            )
            console.print(
                f"Watch them in a browser meanwhile: {page_at(page_port)}", soft_wrap=True
            )
            screen = Screen(console, labels)
            demo = Demo(
                settings, plan, instances, labels - plan.labels, screen, page_port, is_opened
            )
            with screen.live:
                result = run_connected(demo.run())
    except DemoFailed as error:
        for line in error.log:
            click.echo(line, err=True)
        raise click.ClickException(str(error)) from None
    console.print()
    console.print(summary(result))
    if which("sbic") is None:
        console.print("\nFor the commands below, first: . .venv/bin/activate")
    console.print(f"\n{NEXT}", markup=False, soft_wrap=True)
