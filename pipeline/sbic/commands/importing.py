"""`sbic import`: imports labels from other tools."""

import click

from sbic.commands import tell
from sbic.commands.options import (
    BadInput,
    given_options,
    in_project,
    label_map_option,
    mapping_of,
    max_size_option,
    run_connected,
)
from sbic.files.tables import BadFile
from sbic.integrations.label_studio import Choices
from sbic.integrations.label_studio_import import Exported, Imported, import_annotations
from sbic.project.revision import Given


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
    classes = settings.crowd_classes
    choices = Choices(classes, control, dict(mapping_of(pair, classes) for pair in label_map))
    done = Imported()
    exported = Exported(paths, choices, max_size)
    try:
        run_connected(import_annotations(settings, exported, done, prune=prune, dry_run=dry_run))
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
