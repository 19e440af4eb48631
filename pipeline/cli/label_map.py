"""`--label-map FROM=TO`: maps labels to classes."""

from pipeline.classes import Classes
from pipeline.cli.errors import BadInput
from pipeline.foreign import shown


def mapping_of(pair: str, classes: Classes) -> tuple[str, int | str]:
    """Parse a pair: the original label, and the class or skip that it stands for.

    >>> mapping_of("yes=1", Classes.parse("-1,1")), mapping_of("Cat=cat", Classes.parse("cat,dog"))
    (('yes', 1), ('Cat', 'cat'))
    """
    came, equals, name = pair.rpartition("=")
    if not equals:
        raise BadInput(f"--label-map {shown(pair)} is not FROM=TO, such as yes=1")
    if name in classes.names:
        return came, classes.labels[classes.names.index(name)]
    if name == "0":
        return came, 0
    raise BadInput(
        f"--label-map {shown(pair)}: {shown(name)} is not one of {classes.listed()}, or 0 to skip"
    )
