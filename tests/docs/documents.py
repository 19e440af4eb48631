"""The documents, and what is in them: blocks of code, inline code, headings and links."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
FENCED = re.compile(r"^```(\w*) ?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?<=\n\n)((?: {4}.*\S.*\n(?:\n(?= {4}))?)+)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")


class Block(NamedTuple):
    """A block of code; `title` is what follows the language, such as a file's name."""

    language: str
    title: str
    text: str


class Document:
    """A page of Markdown."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path.relative_to(ROOT))
        self.text = path.read_text()

    def __repr__(self) -> str:
        return self.name

    def blocks(self, *languages: str) -> list[Block]:
        """The fenced blocks of these languages, in order."""
        found = (Block(*match.groups()) for match in FENCED.finditer(self.text))
        return [block for block in found if not languages or block.language in languages]

    def shell(self) -> Iterator[str]:
        """The blocks of shell commands, fenced and indented."""
        for block in self.blocks("sh"):
            yield block.text
        for match in INDENTED.finditer(self.prose()):
            yield re.sub(r"^ {4}", "", match[1], flags=re.MULTILINE)

    def prose(self) -> str:
        """The text without fenced blocks."""
        return FENCED.sub("", self.text)

    def inline_code(self) -> list[str]:
        """What stands between backticks."""
        return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", self.prose())]

    def anchors(self) -> set[str]:
        """The anchors of the headings, as GitHub makes them."""
        return {anchor_of(heading) for heading in HEADING.findall(self.prose())}

    def links(self) -> list[str]:
        """Where the links lead."""
        return LINK.findall(self.prose())


def anchor_of(heading: str) -> str:
    """The anchor of a heading.

    >>> anchor_of("Sizes, and `sbic run`: what?")
    'sizes-and-sbic-run-what'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


DOCUMENTS = [
    Document(path)
    for path in sorted(
        [
            *ROOT.glob("*.md"),
            *(ROOT / "docs").rglob("*.md"),
            *(ROOT / "deploy").rglob("*.md"),
            *(ROOT / "schemas").glob("*.md"),
        ]
    )
]


def document(name: str) -> Document:
    """The document at a path within the repository."""
    return Document(ROOT / name)
