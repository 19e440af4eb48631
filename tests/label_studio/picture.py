"""Makes docs/label-studio.png: `LABEL_STUDIO=... python -m tests.label_studio.picture [FOLDER]`.

Six people judge comments in a real Label Studio, which is connected to a gateway. FOLDER has the
data of a Label Studio, whose database takes minutes to make.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from aiohttp import ClientSession

from sbic.local.broker import EmbeddedBroker
from sbic.local.java import free_port
from sbic.project.opening import open_project
from sbic.project.revision import Given
from sbic.project.settings import Settings
from tests.gateway.client import running_gateway
from tests.instances import instance
from tests.label_studio.real import TOKEN, RealLabelStudio, User, started
from tests.page.browser import Browser, chromium
from tests.projects import environment

PICTURE = Path(__file__).parent.parent.parent / "docs" / "label-studio.png"
CONFIG = (
    '<View><Text name="text" value="$comment"/><Choices name="tone" toName="text">'
    '<Choice value="praise"/><Choice value="question"/><Choice value="complaint"/>'
    "</Choices></View>"
)
COMMENTS = {
    "It just works, thank you!": "praise",
    "Where can I change my address?": "question",
    "Third parcel that arrives broken.": "complaint",
    "Best delivery I have ever had.": "praise",
    "Well, that was quick. Not.": "complaint",
    "Is there a discount for students?": "question",
    "The courier was friendly as always.": "praise",
    "Why do you never answer?": "complaint",
    "Do you ship to Norway?": "question",
    "Five stars from me.": "praise",
    "I waited at home for nothing.": "complaint",
    "How long is the warranty?": "question",
}
HARD = ("Well, that was quick. Not.", "Why do you never answer?")
LOGIN = """
document.querySelector('[name=email]').value = arguments[0];
document.querySelector('[name=password]').value = arguments[1];
document.querySelector('form').submit();"""


async def labelled(studio: RealLabelStudio, broker: EmbeddedBroker) -> int:
    """A connected project whose tasks six people have annotated; its number."""
    settings = Settings(
        broker=broker.url, prefix="comments", partitions=3, classes="praise,question,complaint"
    )
    settings = (await open_project(Given.of(settings))).settings
    with instance(broker.url, settings.prefix) as one:
        await asyncio.to_thread(one.wait_ready, 300)
        async with running_gateway([settings]) as gateway:
            await gateway.until_ready()
            fields = {"label_config": CONFIG, "maximum_annotations": 6, "title": "Comments"}
            project = int((await studio.make("projects/", fields))["id"])
            tasks = [{"data": {"comment": text}} for text in COMMENTS]
            done = await studio.make(f"projects/{project}/import?return_task_ids=1", tasks)
            url = f"{gateway.url}/label-studio/{settings.prefix}"
            backend = {"project": project, "url": url, "title": settings.prefix}
            await studio.make("ml", backend)
            await annotate(studio, project, done["task_ids"])
            await asyncio.sleep(5)  # the last of them are counted
            push = [sys.executable, "-m", "sbic", "push", "label-studio", studio.url]
            await asyncio.to_thread(
                subprocess.run,
                [*push, "--project", str(project)],
                env=environment(settings) | {"SBIC_LABEL_STUDIO_TOKEN": TOKEN},
                check=True,
            )
            return project


async def annotate(studio: RealLabelStudio, project: int, tasks: list[int]) -> None:
    random = Random(3)
    users: list[User] = [await studio.signed_up(f"{n}-{project}") for n in "abcdef"]
    for task, (text, tone) in zip(tasks, COMMENTS.items(), strict=True):
        for user in random.sample(users, random.randint(2, 6)):
            is_right = random.random() < (0.5 if text in HARD else 0.93)
            choice = tone if is_right else random.choice(["praise", "question", "complaint"])
            result = {"from_name": "tone", "to_name": "text", "type": "choices"}
            body = {"result": [{**result, "value": {"choices": [choice]}}]}
            await studio.make(f"tasks/{task}/annotations/", body, user.token)


async def view(studio: RealLabelStudio, project: int) -> int:
    """A tab of the data manager with few columns, the lowest scores first."""
    hidden = [
        *("tasks:completed_at", "tasks:cancelled_annotations", "tasks:total_predictions"),
        *("tasks:annotators", "tasks:annotations_results", "tasks:annotations_ids"),
        *("tasks:file_upload", "tasks:storage_filename", "tasks:created_at", "tasks:updated_at"),
        *("tasks:updated_by", "tasks:avg_lead_time", "tasks:draft_exists", "tasks:inner_id"),
        *("tasks:predictions_model_versions", "tasks:meta", "tasks:comment_count"),
        *("tasks:unresolved_comment_count", "tasks:comment_authors", "tasks:state"),
        *("tasks:last_comment_updated_at",),
    ]
    data = {
        "title": "Least certain first",
        "ordering": ["tasks:predictions_score"],
        "hiddenColumns": {"explore": hidden, "labeling": hidden},
        "columnsDisplayType": {},
        "columnsWidth": {},
        "type": "list",
        "target": "tasks",
    }
    return int((await studio.make("dm/views/", {"project": project, "data": data}))["id"])


def take(browser: Browser, url: str, project: int, tab: int) -> None:
    browser.open(f"{url}/user/login/", width=1400)
    browser.run(LOGIN, "owner@example.org", "not-secret")
    time.sleep(5)
    browser.open(f"{url}/projects/{project}/data?tab={tab}", width=1400)
    browser.wait(lambda: "parcel" in browser.text("body"))
    time.sleep(3)  # what moves comes to rest
    browser.size(1400, height=720)
    time.sleep(2)
    PICTURE.write_bytes(browser.driver.get_screenshot_as_png())


async def main(folder: Path) -> None:
    """Take the picture."""
    port = free_port()
    with (
        started(folder, port, SSRF_PROTECTION_ENABLED="false", ML_BLOCK_LOCAL_IP="false"),
        EmbeddedBroker() as broker,
    ):
        async with ClientSession() as http:
            studio = RealLabelStudio(f"http://127.0.0.1:{port}", http, folder)
            await studio.until_up()
            project = await labelled(studio, broker)
            tab = await view(studio, project)
            with chromium() as browser:
                await asyncio.to_thread(take, browser, studio.url, project, tab)


if __name__ == "__main__":
    assert os.environ.get("LABEL_STUDIO"), "set LABEL_STUDIO to the program"
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(main(Path(sys.argv[1] if sys.argv[1:] else name)))
