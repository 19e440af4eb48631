"""`sbic bounds`: the paper's bounds on the error of a crowd."""

import json

import click

from sbic.commands.options import BadInput
from sbic.engine.labels import Prior

MOST_LABELS = 5_000  # takes a second; the bounds have converged long before


@click.command(short_help="How fast the error falls with the labels per task.")
@click.option(
    "--labels-per-worker",
    type=click.IntRange(1, MOST_LABELS),
    required=True,
    help="L: how many labels each worker gives.",
)
@click.option("--alpha", type=float, default=2.0, show_default=True)
@click.option("--beta", type=float, default=1.0, show_default=True)
def command(labels_per_worker: int, alpha: float, beta: float) -> None:
    """Print F and G of Theorems 1 and 2 for Fast and Sorted SBIC, as JSON.

    For workers of accuracy Beta(alpha, beta) and R labels per task, the error is at most about F
    to the power R under the uniform policy and exp(-R G) under the uncertainty policy.

    \b
    Example:
      sbic bounds --labels-per-worker 10 --alpha 4 --beta 3
    """

    from sbic.research.bounds import bounds

    try:
        crowd = bounds(labels_per_worker, Prior(alpha, beta))
    except ValueError as error:
        raise BadInput(str(error)) from None
    result = {
        "F_fast": crowd.f_fast,
        "F_sorted": crowd.f_sorted,
        "G_fast": crowd.g_fast,
        "G_sorted": crowd.g_sorted,
    }
    click.echo(json.dumps(result, indent=2))
