"""docs/upgrading.md names the formats that this version reads."""

import re

from sbic.project import revision
from sbic.wire import columns
from tests.docs.documents import document


def test_the_formats_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| (`sbic\..*`) \| (\d+) \|$", document("docs/upgrading.md").text, re.M)
    formats = {topic: int(number) for topics, number in rows for topic in topics.split(", ")}
    assert formats == {
        **{f"`sbic.{name}`": columns.FORMAT for name in ("answers", "votes", "evidence")},
        "`sbic.estimates`": columns.FORMAT,
        "`sbic.project`": revision.FORMAT,
    }
