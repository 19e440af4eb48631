"""`sbic push`: writes posteriors into another tool."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import click

from sbic.commands import tell
from sbic.commands.options import (
    BadInput,
    choices_of,
    given_options,
    in_project,
    label_map_option,
    metrics_options,
    run_connected,
    serve_metrics,
    sink_name_option,
    tool_token,
    tool_url,
    until_stopped,
)
from sbic.integrations.label_studio_push import (
    PushMetrics,
    StudioTarget,
    follow,
    other_version,
    push,
)
from sbic.integrations.phoenix import PhoenixProject
from sbic.integrations.phoenix import push as push_phoenix
from sbic.integrations.tools import BadTool, Pushed, ToolTrouble
from sbic.project.revision import Given
from sbic.project.settings import SPECS, variable

TOKEN = variable("label_studio_token")
PHOENIX_TOKEN = variable("phoenix_token")
LOGGING = ("log_level", "log_format")


@click.group(short_help="Write posteriors into another tool.")
def command() -> None:
    """Write posteriors into another tool."""


@command.command("label-studio", short_help="Write predictions into a Label Studio project.")
@click.argument("url", metavar="URL")
@click.option("--project", required=True, type=click.IntRange(1), help="The number in its address.")
@click.option(
    "--control", metavar="NAME", help="The control with the choices.  [default: the only one]"
)
@label_map_option("choice")
@click.option("--follow", "is_following", is_flag=True, help="Go on as posteriors change.")
@sink_name_option("label-studio- and the project")
@metrics_options
@click.option("--dry-run", is_flag=True, help="Only report what would be written.")
@given_options("broker", "prefix", "classes", "log_level", "log_format")
def label_studio(
    given: Given,
    url: str,
    project: int,
    control: str | None,
    label_map: tuple[str, ...],
    is_following: bool,
    name: str | None,
    metrics_port: int | None,
    metrics_host: str,
    dry_run: bool,
) -> None:
    """Write a prediction for each task of a Label Studio project: the choice, and its confidence.

    URL is the address of Label Studio, such as https://labels.example.org; the ids of its tasks
    are the tasks of the pipeline. Predictions have the prefix as their model version, and those of
    other models are left alone. A task without labels gets a prediction without a choice, with the
    confidence of chance, so that uncertainty sampling knows it too.

    Only what differs is written: the command may be interrupted and run again. With --follow it
    goes on until SIGTERM, as posteriors change and tasks come, and sbic status shows how far behind
    it is.

    The token of a Label Studio user is never given here, where everybody could see it: it is in
    SBIC_LABEL_STUDIO_TOKEN, or in the file SBIC_LABEL_STUDIO_TOKEN_FILE. Both kinds will do.

    \b
    Examples:
      sbic push label-studio https://labels.example.org --project 3
      sbic push label-studio http://localhost:8081 --project 3 --follow --metrics-port 6068
      sbic push label-studio http://localhost:8081 --project 3 --label-map Yes=1 --label-map No=-1
    """
    from sbic.runtime.logs import set_up_logging

    if metrics_port is not None and not is_following:
        raise click.UsageError("--metrics-port is for --follow")
    if name is not None and not is_following:
        raise click.UsageError("--name is for --follow")
    if is_following and dry_run:
        raise click.UsageError("--dry-run ends, and --follow does not: give one of them")
    url, token = tool_url(url), tool_token(TOKEN)
    if token is None:
        raise BadInput(f"set {TOKEN} or {TOKEN}_FILE to the token of a Label Studio user")
    settings = in_project(given)
    choices = choices_of(settings, label_map, control=control)
    target, done = StudioTarget(url, token, project, choices), Pushed()
    with telling(done):
        if is_following:
            level, style = (given.values.get(name, SPECS[name].default) for name in LOGGING)
            set_up_logging(level, style)
            logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
            metrics = PushMetrics()
            if metrics_port is not None:
                serve_metrics(metrics.registry, metrics_host, metrics_port)
            name = name or f"label-studio-{project}"
            run_connected(until_stopped(follow(settings, target, done, metrics, name)))
            return
        shows = run_connected(push(settings, target, done, dry_run=dry_run))
    if shows:
        tell(other_version(shows, settings.prefix))
    tell(summary(done, dry_run=dry_run))


@command.command("phoenix", short_help="Write annotations into a project of Arize Phoenix.")
@click.argument("url", metavar="URL")
@click.option("--project", required=True, metavar="NAME", help="Its name or id in Phoenix.")
@click.option(
    "--annotation", default="sbic", show_default=True, metavar="NAME", help="What to call them."
)
@label_map_option("label")
@click.option("--dry-run", is_flag=True, help="Only report what would be written.")
@given_options("broker", "prefix", "classes")
def phoenix(
    given: Given,
    url: str,
    project: str,
    annotation: str,
    label_map: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Write the posterior of each task into Phoenix, as an annotation of its span.

    URL is the address of Phoenix, such as http://localhost:6006; the ids of its spans are the tasks
    of the pipeline. The label is the most probable class, the score its probability, and the
    explanation how many labels they come from. Tasks that are no spans of the project are left out,
    and so are spans without labels.

    Only what differs is written: the command may be interrupted and run again. Annotations have the
    kind CODE and the identifier sbic:PREFIX, and all others are left alone.

    Where Phoenix asks for an API key, it is never given here, where everybody could see it: it is
    in SBIC_PHOENIX_TOKEN, or in the file SBIC_PHOENIX_TOKEN_FILE.

    \b
    Examples:
      sbic push phoenix http://localhost:6006 --project bot
      sbic push phoenix http://localhost:6006 --project bot --annotation crowd --dry-run
      sbic push phoenix http://localhost:6006 --project bot --label-map yes=1 --label-map no=-1
    """
    target = PhoenixProject(tool_url(url), tool_token(PHOENIX_TOKEN), project)
    if annotation == "note":
        raise BadInput("Phoenix keeps the name 'note' for notes: choose another --annotation")
    settings, done = in_project(given), Pushed()
    choices = choices_of(settings, label_map, what="label")
    with telling(done):
        run_connected(push_phoenix(settings, target, annotation, choices, done, dry_run=dry_run))
    tell(summary(done, dry_run=dry_run))


@contextmanager
def telling(done: Pushed) -> Iterator[None]:
    """End the command with one line for what goes wrong with the tool."""
    try:
        yield
    except BadTool as error:
        raise BadInput(str(error)) from None
    except ToolTrouble as error:
        raise click.ClickException(f"{error}; {summary(done)}: run it again") from None
    except KeyboardInterrupt:
        tell(f"{summary(done)}; run it again for the rest")
        raise click.Abort from None


def summary(done: Pushed, *, dry_run: bool = False) -> str:
    """Describe the outcome of a push, in one line.

    >>> summary(Pushed(tasks=12, new=9, changed=1), dry_run=True)
    'tasks: 12 (9 new, 1 changed, 2 unchanged); nothing was written'
    """
    counts = f"{done.new:,} new, {done.changed:,} changed, {done.unchanged:,} unchanged"
    return f"tasks: {done.tasks:,} ({counts}){'; nothing was written' if dry_run else ''}"
