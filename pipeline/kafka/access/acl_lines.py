"""The rights of each role as `kafka-acls` commands and as rows of `docs/security.md`."""

from collections.abc import Iterator
from itertools import groupby

from pipeline.kafka.access.rights import ROLES, Operation, Resource, Right


def acl_lines(role: str, prefix: str = "sbic") -> Iterator[str]:
    """The commands that grant a role to the user of the same name, topics grouped by operation.

    >>> print(*acl_lines("producer"), sep="\\n")
    kafka-acls.sh --add --allow-principal User:producer --operation Read --topic sbic.project
    kafka-acls.sh --add --allow-principal User:producer --operation Write --topic sbic.labels
    """
    for (operation, resource, is_prefixed), rights in groupby(ROLES[role], _kind):
        names = "".join(f" --{resource} {right.target(prefix)}" for right in rights)
        pattern = " --resource-pattern-type prefixed" if is_prefixed else ""
        who = f"--allow-principal User:{role}"
        yield f"kafka-acls.sh --add {who} --operation {operation.acl_name}{names}{pattern}"


def table_row(role: str, prefix: str = "sbic") -> str:
    """The row of a role in the table of `docs/security.md`.

    >>> table_row("producer")
    '| producer | Read topic `sbic.project`; Write topic `sbic.labels` |'
    """
    cells = []
    for (operation, resource, is_prefixed), rights in groupby(ROLES[role], _kind):
        names = ", ".join(f"`{right.target(prefix)}{'*' * is_prefixed}`" for right in rights)
        cells.append(f"{operation.acl_name} {resource} {names}")
    return f"| {role} | {'; '.join(cells)} |"


def _kind(right: Right) -> tuple[Operation, Resource, bool]:
    return right.operation, right.resource, right.is_prefixed
