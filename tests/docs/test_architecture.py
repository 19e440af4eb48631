"""docs/architecture.md has every package, and the layers that import-linter checks."""

import re
import subprocess
import sys
import tomllib

from tests.docs.documents import ROOT, document

TEXT = document("docs/architecture.md").text
TREE, LAYERS = TEXT.split("## The tree")[1].split("## One-way layers")
CONTRACT, *_ = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]
PACKAGES = {path.parent.name for path in (ROOT / "pipeline/sbic").glob("*/__init__.py")}


def test_the_tree_has_every_package() -> None:
    rows = re.findall(r"^\| (`.*`) \|", TREE.split("|---|---|")[1], re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    layers = {name for row in CONTRACT["layers"] for name in row.split(" : ")}
    assert named == layers >= PACKAGES


def test_the_layers_are_those_that_are_checked() -> None:
    rows = re.findall(r"^\| \d \| (.*) \|$", LAYERS, re.MULTILINE)
    named = [re.findall(r"`(\w+)`", row) for row in rows]
    assert named == [row.split(" : ") for row in reversed(CONTRACT["layers"])]


MOST_FILES = {"a label": 34, "an assignment": 20, "`POST /labels`": 12}
WAYS = {
    title: set(re.findall(r"`([\w/]+\.py)`", part))
    for title, _, part in (part.partition("\n") for part in TEXT.split("\n## The way of ")[1:])
}


def test_each_way_names_files_that_are_there_and_not_too_many() -> None:
    assert WAYS.keys() == MOST_FILES.keys()
    for title, files in WAYS.items():
        assert all((ROOT / "pipeline/sbic" / file).is_file() for file in files), title
        assert 5 < len(files) <= MOST_FILES[title], title


SCRIPT = """
import sys
sys.modules["numba"] = None  # compiled functions could not be followed
from sbic.instance.requests import Rules
from tests.stages.assigning import AssigningInstance
from tests.stages.simulated.log import Log
from tests.stages.simulated.one_instance import OneInstance
from tests.stages.simulated.project import SimulatedProject

entered = set()

def note(frame, event, _):
    _, inside, file = frame.f_code.co_filename.rpartition("/pipeline/sbic/")
    if event == "call" and inside:
        entered.add(file)

def follow(step):
    entered.clear()
    sys.setprofile(note)
    step()
    sys.setprofile(None)
    print(*sorted(entered))

for algorithm in ("fast-sbic", "settled"):
    one = OneInstance(Log(partitions=3), SimulatedProject(algorithm=algorithm))
    one.describe({"task": "t1"})
    one.label("t2", "bob", 1)
    log = one.log
    partition = log.produce("t1", "ann", 1)
    follow(lambda: one.take(partition, log["labels"][partition][-1:]))
assigning = AssigningInstance(Rules())
assigning.describe([{"task": "t1"}, {"task": "t2"}])
follow(lambda: assigning.ask("ann"))
"""


def test_each_way_names_every_file_that_is_entered() -> None:
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, check=True
    )
    fast, settled, request = (set(line.split()) for line in run.stdout.splitlines())
    assert len(fast) > 15
    assert fast | settled <= WAYS["a label"]
    assert request <= WAYS["an assignment"]
