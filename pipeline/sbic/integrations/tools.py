"""What pushes into other tools have in common: requests to an API, and reading posteriors."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import ClientError, ClientSession

from sbic.foreign import shown
from sbic.kafka.connect import connected
from sbic.kafka.errors import MissingTopic
from sbic.kafka.protocol import TopicIds
from sbic.kafka.reader import Reader, reading
from sbic.project.settings import Settings
from sbic.project.topics import Topics

ANSWER_SECONDS = 100
SAME = 0.005  # scores that differ by less are left alone


class ToolTrouble(Exception):
    """The tool does not do what is asked, now; the message is one line."""


class BadTool(Exception):
    """The project of the tool cannot be used as it is given; the message says what to change.

    Waiting does not help.
    """


class GoneFromTool(BadTool):
    """There is no such project, task, span or prediction (any more)."""


async def ask(
    http: ClientSession,
    name: str,
    method: str,
    url: str,
    *,
    body: object = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, Any]:
    """Send a request to the API of a tool; returns the status, and the JSON or what is wrong."""
    place = url.partition("?")[0]
    try:
        async with http.request(
            method, url, json=body, headers=headers, allow_redirects=False
        ) as answer:
            if answer.status == 204:
                return 204, None
            if 300 <= answer.status < 400:
                raise BadTool(f"{place} is elsewhere: {answer.headers.get('Location')}")
            if answer.status >= 400 and answer.content_type == "text/plain":
                return answer.status, await answer.text()
            return answer.status, await answer.json(content_type=None)
    except ValueError:
        raise BadTool(f"{place} is not the API of a {name}") from None
    except (ClientError, TimeoutError) as error:
        said = str(error) or "it does not answer"
        raise ToolTrouble(f"cannot reach {name} at {place}: {said}") from None


def detail_of(found: object) -> str:
    """Return what the tool says is wrong, in one line."""
    detail = found.get("detail", found) if isinstance(found, dict) else found
    return shown(detail, 200)


@dataclass
class Pushed:
    """The outcome of a push."""

    tasks: int = 0
    new: int = 0
    changed: int = 0

    @property
    def unchanged(self) -> int:
        """Tasks of which the tool had what it should have."""
        return self.tasks - self.new - self.changed


@asynccontextmanager
async def reading_posteriors(
    settings: Settings,
) -> AsyncIterator[tuple[Reader, Callable[[], Awaitable[bool]]]]:
    """Connect a reader of all posteriors; yields also whether their topic is still the same."""
    topic = Topics(settings).posteriors.name
    async with (
        reading(settings, topic, from_start=True) as reader,
        connected(TopicIds(settings), settings) as topic_ids,
    ):
        ids = await topic_ids.find([topic])
        if not ids:
            raise MissingTopic(topic, settings)

        async def is_same() -> bool:
            return await topic_ids.find([topic]) == ids

        yield reader, is_same
