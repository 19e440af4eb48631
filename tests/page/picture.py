"""Makes docs/page.png, the picture of the page: `python -m tests.page.picture`.

A crowd of a hundred workers labels 600 photos while the page is open; 8,000 labels are the budget.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from urllib.error import URLError
from urllib.request import urlopen

from sbic.client import Client
from sbic.local.broker import EmbeddedBroker
from sbic.local.java import free_port
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from tests.instances import LAUNCH, instance
from tests.page.browser import chromium
from tests.page.show import BAD_LABELS
from tests.projects import write

PICTURE = Path(__file__).parent.parent.parent / "docs" / "page.png"
CLASSES = ("cat", "dog", "bird")
TASKS, LABELS_PER_TASK = 600, 15
AT_ONCE = 100  # labels in a portion
PORTION_SECONDS = 0.5
NAMES = ("ann", "bob", "cy", "dee", "eli")
WORST_FIRST = """
const order = document.querySelector("#workers select.order");
order.value = "worst";
order.dispatchEvent(new Event("change", { bubbles: true }));"""
RULES = {"SBIC_BUDGET": "8000", "SBIC_STOP_CONFIDENCE": "0.999", "SBIC_BLOCK_BELOW": "0.5"}


def labels() -> list[dict[str, str]]:
    """Answers of workers, some of whom mostly guess, in a random order."""
    random = Random(7)
    workers = {f"{name}-{n}": random.betavariate(2, 3) for name in NAMES for n in range(20)}
    given = []
    for number in range(TASKS):
        truth = random.choice(CLASSES)
        for worker in random.sample(list(workers), LABELS_PER_TASK):
            label = truth if random.random() < workers[worker] else random.choice(CLASSES)
            given.append({"task": f"photo-{number:04}", "worker": worker, "label": label})
    random.shuffle(given)
    return given


@contextmanager
def gateway(broker: str, port: int) -> Iterator[str]:
    """A gateway for the project; the address of its page."""
    env = {"SBIC_BROKER": broker, "SBIC_PREFIX": "pets", "SBIC_GATEWAY_PORT": str(port), **RULES}
    running = subprocess.Popen(
        [sys.executable, "-c", LAUNCH, "-m", "sbic", "gateway"], env=os.environ | env
    )
    try:
        url = f"http://127.0.0.1:{port}/"
        while not is_ready(url):
            assert running.poll() is None
            time.sleep(0.2)
        yield url
    finally:
        running.terminate()
        running.wait()


def is_ready(url: str) -> bool:
    """Whether the gateway has read the project."""
    try:
        with urlopen(f"{url}readyz", timeout=5):
            return True
    except (URLError, ConnectionError, TimeoutError):
        return False


def send(broker: str) -> None:
    """Some bad labels, then all others at the pace of a crowd."""
    given = labels()
    settings = Settings(broker=broker, prefix="pets")
    bad = [(b"ann-0", value) for value in BAD_LABELS]
    asyncio.run(write(settings, Topics(settings).labels.name, bad))
    with Client(broker, project="pets") as crowd:
        for first in range(0, len(given), AT_ONCE):
            crowd.send(given[first : first + AT_ONCE])
            time.sleep(PORTION_SECONDS)


def main() -> None:
    """Take the picture once everything is counted and settled."""
    settings = {"SBIC_CLASSES": ",".join(CLASSES), **RULES}
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker())
        for _ in range(2):
            stack.enter_context(instance(broker.url, "pets", **settings)).wait_ready(120)
        url = stack.enter_context(gateway(broker.url, free_port()))
        browser = stack.enter_context(chromium())
        browser.open(url, width=1200)
        send(broker.url)
        while browser.text("#settled") != "Settled":  # longer than a test would wait
            time.sleep(1)
        browser.run(WORST_FIRST)
        browser.wait(lambda: "blocked" in browser.text("#workers tbody"))
        PICTURE.write_bytes(browser.picture())


if __name__ == "__main__":
    main()
