"""`sbic import`: imports labels from other tools."""

import click

from sbic.commands import tell
from sbic.commands.options import (
    BadInput,
    choices_of,
    given_options,
    in_project,
    label_map_option,
    max_size_option,
    run_connected,
    tool_token,
    tool_url,
)
from sbic.files.tables import BadFile
from sbic.integrations.label_studio_import import (
    AnnotationSource,
    Exported,
    Imported,
    import_annotations,
)
from sbic.integrations.phoenix import KINDS, PhoenixProject, fetch
from sbic.integrations.tools import BadTool, ToolTrouble
from sbic.project.revision import Given
from sbic.project.settings import Settings, variable

PHOENIX_TOKEN = variable("phoenix_token")


@click.group(short_help="Import the labels of another tool.")
def command() -> None:
    """Import the labels of another tool."""


@command.command("label-studio", short_help="Send new and changed annotations of an export.")
@click.argument("paths", metavar="EXPORT.json...", nargs=-1, required=True)
@click.option(
    "--control", metavar="NAME", help="The control with the choices.  [default: the only one]"
)
@label_map_option("choice")
@click.option("--prune", is_flag=True, help="Take back annotations missing in the export.")
@click.option("--dry-run", is_flag=True, help="Only report what would be sent.")
@max_size_option
@given_options("broker", "prefix", "classes", "scale", "ordered")
def label_studio(
    given: Given,
    paths: tuple[str, ...],
    control: str | None,
    label_map: tuple[str, ...],
    prune: bool,
    dry_run: bool,
    max_size: int,
) -> None:
    """Send the annotations of a Label Studio export that the pipeline does not have.

    EXPORT.json is the JSON export, or JSON_MIN with --control, also with gzip; a large file takes
    no more memory. The task is the id of the task, the worker the id of `completed_by`, the label
    the choice; an annotation that was skipped, or has no choice, is a skip. What
    cannot be used, such as an annotation with two choices, is listed, and all others are sent; if
    nothing in the files can be used, nothing is sent, and the exit status is 2.

    Each annotation is sent once: those sent by a webhook or an earlier import are not sent again, a
    changed one replaces the answer, and one that is older than the topic's is ignored. --prune also
    takes back annotations that were deleted since: those in the topic that are not in the files,
    except newer ones. So with --prune, give the exports of all Label Studio projects that send
    labels to this project, in one command.

    \b
    Examples:
      sbic import label-studio project-1.json
      sbic import label-studio project-1.json --control sentiment --prefix reviews
      sbic import label-studio project-1.json --label-map Yes=1 --label-map No=-1
      sbic import label-studio project-1.json project-2.json --prune --dry-run
    """
    settings = in_project(given)
    source = Exported(paths, choices_of(settings, label_map, control=control), max_size)
    send(settings, source, prune=prune, dry_run=dry_run)


@command.command("phoenix", short_help="Send new and changed annotations of Arize Phoenix.")
@click.argument("url", metavar="URL")
@click.option(
    "--project",
    "projects",
    required=True,
    multiple=True,
    metavar="NAME",
    help="Its name or id in Phoenix. Can be repeated.",
)
@click.option(
    "--annotation",
    "names",
    required=True,
    multiple=True,
    metavar="NAME",
    help="The annotations that are labels. Can be repeated.",
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(KINDS, case_sensitive=False),
    help="Only those by people, models or programs. Can be repeated.",
)
@label_map_option("label")
@click.option("--prune", is_flag=True, help="Take back annotations that Phoenix has no longer.")
@click.option("--dry-run", is_flag=True, help="Only report what would be sent.")
@given_options("broker", "prefix", "classes", "scale", "ordered")
def phoenix(
    given: Given,
    url: str,
    projects: tuple[str, ...],
    names: tuple[str, ...],
    kinds: tuple[str, ...],
    label_map: tuple[str, ...],
    prune: bool,
    dry_run: bool,
) -> None:
    """Send the annotations of spans in Arize Phoenix that the pipeline does not have.

    URL is the address of Phoenix, such as http://localhost:6006. The task is the id of the span,
    the label that of the annotation, and the worker its identifier; without one the user, as in
    User:3, and for a model or a program the name of the annotation. An annotation without a label
    and a score is a skip. What cannot be used, such as one with a score only, is listed, and all
    others are sent; if nothing can be used, nothing is sent, and the exit status is 2. What `sbic
    push phoenix` has written is no label.

    Each annotation is sent once, and a changed one replaces the answer. --prune also takes back
    annotations that are not found any more: with it, give all projects, annotations and kinds that
    send labels to this project, in one command.

    Where Phoenix asks for an API key, it is never given here, where everybody could see it: it is
    in SBIC_PHOENIX_TOKEN, or in the file SBIC_PHOENIX_TOKEN_FILE.

    \b
    Examples:
      sbic import phoenix http://localhost:6006 --project bot --annotation correct
      sbic import phoenix http://localhost:6006 --project bot --annotation correct --kind HUMAN
      sbic import phoenix http://localhost:6006 --project bot --annotation ok --label-map unsure=0
      sbic import phoenix http://localhost:6006 --project bot --annotation correct --prune
    """
    key = tool_token(PHOENIX_TOKEN)
    targets = [PhoenixProject(tool_url(url), key, project) for project in dict.fromkeys(projects)]
    settings = in_project(given)
    choices = choices_of(settings, label_map, what="label")
    wanted = [kind for kind in KINDS if kind in kinds or not kinds]
    try:
        source = run_connected(fetch(targets, list(dict.fromkeys(names)), wanted, choices))
    except BadTool as error:
        raise BadInput(str(error)) from None
    except ToolTrouble as error:
        raise click.ClickException(f"{error}; nothing was sent") from None
    send(settings, source, prune=prune, dry_run=dry_run)


def send(settings: Settings, source: AnnotationSource, *, prune: bool, dry_run: bool) -> None:
    """Send what differs, and tell the outcome."""
    done = Imported()
    try:
        run_connected(import_annotations(settings, source, done, prune=prune, dry_run=dry_run))
    except BadFile as error:
        raise BadInput(str(error)) from None
    except KeyboardInterrupt:
        tell(f"{done.labels:,} labels were sent; run it again for the rest")
        raise click.Abort from None
    for reason in done.reasons:
        tell(f"not used: {reason}")
    tell(summary(done, dry_run=dry_run))


def summary(done: Imported, *, dry_run: bool) -> str:
    """Return the outcome of an import, in one line.

    >>> from sbic.integrations.label_studio_import import Imported
    >>> summary(Imported(annotations=12, new=9, changed=1, deleted=1, labels=12), dry_run=False)
    'annotations: 12 (9 new, 1 changed, 2 unchanged); deleted: 1; labels sent: 12'
    >>> summary(Imported(annotations=1, new=1, labels=1, unused=3), dry_run=False)
    'annotations: 1 (1 new, 0 changed, 0 unchanged); deleted: 0; not used: 3; labels sent: 1'
    """
    unused = f"not used: {done.unused:,}; " if done.unused else ""
    sent = "nothing was sent" if dry_run else f"labels sent: {done.labels:,}"
    return (
        f"annotations: {done.annotations:,} ({done.new:,} new, {done.changed:,} changed, "
        f"{done.unchanged:,} unchanged); deleted: {done.deleted:,}; {unused}{sent}"
    )
