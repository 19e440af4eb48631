"""What docs/judges.md shows, run as it stands, comes to what it says."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

from sbic.local.broker import EmbeddedBroker
from tests.gateway.client import running_gateway
from tests.gateway.curl import needs_curl
from tests.gateway.projects import new_project
from tests.instances import instance

PAGE = Path(__file__).parent.parent.parent / "docs" / "judges.md"


@needs_curl
async def test_the_verdicts_of_three_models_come_to_what_the_page_says(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    text = PAGE.read_text()
    making, scoring = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    (output,) = re.findall(r"^```text\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    requests = "".join(re.findall(r"^    curl .*\n", text, re.MULTILINE))
    judges = await new_project(broker, classes="right,wrong")
    with instance(broker.url, judges.prefix) as running:
        await asyncio.to_thread(running.wait_ready)
        async with running_gateway([judges]) as gateway:
            await gateway.until_ready()

            async def run(*program: str) -> str:
                moved = [part.replace("http://127.0.0.1:8080", gateway.url) for part in program]
                done = await asyncio.to_thread(
                    subprocess.run,
                    moved,
                    cwd=tmp_path,
                    capture_output=True,
                    text=True,
                    timeout=60,
                )
                assert done.returncode == 0, done.stderr
                return done.stdout

            await run(sys.executable, "-c", making)
            await run("sh", "-e", "-c", requests)
            await gateway.until(
                "/status",
                lambda answer: (
                    answer.json["labels"]["counted"] == 1800
                    and answer.json["settled"]["is_settled"] is True
                ),
            )
            assert await run(sys.executable, "-c", scoring) == output
