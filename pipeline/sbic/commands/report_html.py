"""The report as one HTML page without scripts, with its pictures inside, for screen and print."""

from collections.abc import Iterable, Sequence
from html import escape

from sbic.foreign import local_time, printable
from sbic.infer.advice import called, cost, findings, next_steps
from sbic.infer.agreement import Bin
from sbic.infer.report import Judge, JuryReport, Pair

MOST_PAIRS = 15
MOST_IN_PICTURE = 30
MOST_TASKS = 200
SIDE = 300  # of a square picture
MARGIN = 34

STYLE = """
:root { color-scheme: light dark; --ink: #18202a; --soft: #55616f; --line: #dde3e9; --paper: #fff;
  --faint: #f1f4f7; --accent: #0b62b0; --second: #b4580a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7ecf2; --soft: #9caab9; --line: #2c3640;
  --paper: #12171d; --faint: #1b222a; --accent: #74b6f4; --second: #f0a35c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem clamp(.8rem, 3vw, 2rem) 3rem; max-width: 62rem;
  background: var(--paper); color: var(--ink); font: 1rem/1.5 system-ui, sans-serif;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .4rem; }
h3 { font-size: 1rem; margin: .6rem 0 .2rem; }
.facts th { white-space: normal; max-width: none !important; }
.lead { font-size: 1.08rem; } .soft, figcaption, caption { color: var(--soft); font-size: .88rem; }
ol { padding-left: 1.4rem; } ol.tasks { columns: 10rem; font-size: .88rem; }
.wide { overflow-x: auto; } figure { margin: 0; } svg { display: block; max-width: 100%; }
table { border-collapse: collapse; font-size: .92rem; } caption { text-align: start; }
th, td { padding: .25rem .9rem .25rem 0; text-align: end; white-space: nowrap;
  border-bottom: 1px solid var(--line); font-weight: 400; }
thead th { color: var(--soft); font-size: .82rem; } th.name, td.name { text-align: start; }
th.name { max-width: 16rem; overflow: hidden; text-overflow: ellipsis; }
.row { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; }
.row table { font-size: .85rem; } td svg { max-width: none; }
.track { fill: var(--faint); } .range { fill: var(--accent); opacity: .35; }
.dot { fill: var(--accent); } .ring { fill: none; stroke: var(--second); stroke-width: 1.6; }
.base, .diagonal { stroke: var(--soft); stroke-width: 1.4; stroke-dasharray: 3 3; }
.axis { stroke: var(--line); } text { fill: var(--soft); font-size: 11px; }
.cell { fill: var(--accent); } .bar { stroke: var(--accent); stroke-width: 1.6; }
@media print { :root { --ink: #000; --soft: #444; --line: #bbb; --paper: #fff; --faint: #eee;
  --accent: #0b62b0; --second: #b4580a; } body { max-width: none; padding: 0; font-size: 10pt; }
  section { break-inside: avoid; } .wide { overflow: visible; } * { print-color-adjust: exact; } }
"""
HEAD = (
    '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    "style-src 'unsafe-inline'\">"
)


def html(report: JuryReport, title: str) -> str:
    """Return the whole page."""
    gold = f"{report.gold:,} of them gold" if report.gold else "none of them gold"
    parts = [
        f'<!doctype html>\n<html lang="en"><head>{HEAD}<title>{text(f"Judges: {title}")}</title>',
        f"<style>{STYLE}</style></head><body><main>",
        f"<h1>How far judges can be trusted: {identity(title)}</h1>",
        f'<p class="soft">{report.labels:,} labels on {report.tasks:,} tasks, {gold}.</p>',
        f'<p class="lead">{text(" ".join(findings(report)))}</p>',
        *_next(report),
        *_judges(report),
        *_pairs(report),
        *_confusions(report),
        *_confidence(report),
        *_shares(report),
        *_together(report),
        "</main></body></html>\n",
    ]
    return "\n".join(parts)


def text(words: str) -> str:
    """Write words as HTML: what others wrote in them is text and nothing else.

    >>> text("<script>\\u202e")
    '&lt;script&gt;\\\\u202e'
    """
    return escape(printable(words))


def identity(name: str) -> str:
    """Return a name that others chose, apart from the direction of the words around it."""
    return f"<bdi>{text(name)}</bdi>"


def _section(title: str, *parts: str) -> str:
    return f"<section><h2>{text(title)}</h2>{''.join(parts)}</section>"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1) -> str:
    """Return a table that scrolls by itself where it is too wide; its cells are HTML."""
    head = "".join(
        f'<th scope="col"{_name(place, names)}>{text(column)}</th>'
        for place, column in enumerate(columns)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<th scope="row"{_name(place, names)}>{cell}</th>'
            if place < names
            else f"<td>{cell}</td>"
            for place, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide">{table}</div>'


def _name(place: int, names: int) -> str:
    return ' class="name"' if place < names else ""


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _next(report: JuryReport) -> Iterable[str]:
    steps = next_steps(report)
    if not steps:
        return
    listed = "".join(f"<li>{text(step)}</li>" for step in steps)
    tasks = ""
    if report.next.tasks:
        some = report.next.tasks[:MOST_TASKS]
        items = "".join(f"<li>{identity(task)}</li>" for task in some)
        title = f"The first {len(some):,} tasks to judge, in a random order"
        tasks = f'<details><summary>{title}</summary><ol class="tasks">{items}</ol></details>'
    yield _section("What to do next", f"<ol>{listed}</ol>", tasks)


# Judges.


def _judges(report: JuryReport) -> Iterable[str]:
    if not report.judges:
        return
    known, listed = report.judges_known, len(report.judges)
    first = f" The {listed} with the most labels of {known:,}." if known > listed else ""
    note = (
        '<p class="soft">Blue: share right on gold, with its 95 % interval. Ring: accuracy by all '
        "labels. Dashed: always giving the most frequent answer; kappa is what a judge has above "
        f"that chance.{first}</p>"
    )
    has_prices = any(judge.cost is not None for judge in report.judges)
    columns = "", "judge", "accuracy", "gold", "right", "95 %", "kappa", "always", "by all"
    rows = [
        [
            str(place),
            identity(called(judge)),
            _interval(judge),
            *_numbers(judge),
            *([cost(judge)] * has_prices),
        ]
        for place, judge in enumerate(report.judges, start=1)
    ]
    more = ["labels", "skips", "drift since"] + ["cost"] * has_prices
    yield _section("Judges", note, _table([*columns, *more], rows, 2))


def _numbers(judge: Judge) -> list[str]:
    gold, posterior = judge.gold, judge.posterior
    return [
        f"{gold.tasks:,}" if gold else "–",
        _number(gold and gold.accuracy),
        f"{gold.interval[0]:.2f} to {gold.interval[1]:.2f}" if gold else "–",
        _number(gold and gold.kappa),
        _number(gold and gold.base_rate),
        _number(posterior and posterior.accuracy) + (" ≠ gold" if judge.contradicted else ""),
        f"{judge.labels:,}",
        f"{judge.skip_share:.1%}",
        text(local_time(judge.drifting)) if judge.drifting else "–",
    ]


def _interval(judge: Judge) -> str:
    """Draw a line from 0 to 1 with the accuracy of a judge."""
    gold, posterior = judge.gold, judge.posterior
    marks = ['<rect class="track" x="0" y="7" width="160" height="4" rx="2"/>']
    if gold:
        low, high = gold.interval
        marks += [
            f'<rect class="range" x="{160 * low:.1f}" y="5" width="{160 * (high - low):.1f}" '
            'height="8" rx="2"/>',
            f'<line class="base" x1="{160 * gold.base_rate:.1f}" x2="{160 * gold.base_rate:.1f}" '
            'y1="0" y2="18"/>',
            f'<circle class="dot" cx="{160 * gold.accuracy:.1f}" cy="9" r="4"/>',
        ]
    if posterior:
        marks.append(f'<circle class="ring" cx="{160 * posterior.accuracy:.1f}" cy="9" r="4.5"/>')
    said = f"right on {gold.right} of {gold.tasks} gold tasks" if gold else "no gold"
    return (
        f'<svg role="img" aria-label="{said}" width="168" height="18" viewBox="-4 0 168 18">'
        f"{''.join(marks)}</svg>"
    )


# Pairs.


def _pairs(report: JuryReport) -> Iterable[str]:
    if not report.pairs:
        return
    names = {judge.worker: called(judge) for judge in report.judges}
    rows = [
        [
            *(identity(names[worker]) for worker in pair.workers),
            f"{pair.tasks:,}",
            _number(pair.agreement),
            _number(pair.kappa),
            f"{_number(pair.contested_agreement)} of {pair.contested:,}",
            f"{pair.gold.same:,.0f} of {pair.gold.wrong:,.0f}" if pair.gold else "–",
            _number(pair.posterior and pair.posterior.share),
            f"{pair.shared:.0%}" if pair.shared else "–",
        ]
        for pair in report.pairs[:MOST_PAIRS]
    ]
    columns = "judge", "and", "common", "agree", "kappa", "where judges differ"
    note = (
        '<p class="soft">Same errors: of the tasks on which one of the two is wrong, those on '
        "which both give the same wrong answer: on gold, and by all labels. Judges who share a "
        "vote copy each other. The first pairs by agreement where judges differ.</p>"
    )
    titles = [*columns, "same errors", "by all", "shared vote"]
    yield _section("Who agrees with whom", _picture(report), note, _table(titles, rows, 2))


def _picture(report: JuryReport) -> str:
    """How far each two judges agree where judges differ, as a square of squares."""
    places = {judge.worker: place for place, judge in enumerate(report.judges)}
    count = len(places)
    if not 2 < count <= MOST_IN_PICTURE:
        return ""
    step = (SIDE - MARGIN) / count
    cells = [_cells(pair, places, step) for pair in report.pairs]
    ticks = [
        f'<text x="{MARGIN + (place + 0.5) * step:.1f}" y="{MARGIN - 6}" text-anchor="middle">'
        f'{place + 1}</text><text x="{MARGIN - 6}" y="{MARGIN + (place + 0.5) * step + 4:.1f}" '
        f'text-anchor="end">{place + 1}</text>'
        for place in range(count)
    ]
    return (
        f'<figure><svg role="img" aria-label="agreement of each two judges; the table has the '
        f'numbers" width="{SIDE}" height="{SIDE}" viewBox="0 0 {SIDE} {SIDE}">'
        f"{''.join(cells)}{''.join(ticks)}</svg><figcaption>Agreement where judges differ, judges "
        "by their numbers above: the darker, the more.</figcaption></figure>"
    )


def _cells(pair: Pair, places: dict[str, int], step: float) -> str:
    agreement = pair.contested_agreement
    if agreement is None:
        return ""
    one, other = (places[worker] for worker in pair.workers)
    shade, side = 0.04 + 0.96 * agreement**2, step - 1
    return "".join(
        f'<rect class="cell" x="{MARGIN + x * step:.1f}" y="{MARGIN + y * step:.1f}" '
        f'width="{side:.1f}" height="{side:.1f}" opacity="{shade:.2f}">'
        f"<title>{x + 1} and {y + 1}: {agreement:.2f}</title></rect>"
        for x, y in ((one, other), (other, one))
    )


def _confusions(report: JuryReport) -> Iterable[str]:
    tables = []
    for judge in report.judges:
        counts = judge.gold and judge.gold.confusion
        by_all = judge.posterior and judge.posterior.confusion
        if not (counts or by_all):
            continue
        rows = [
            [
                identity(name),
                *(f"{each:,}" for each in (counts[row] if counts else ())),
                *(f"{each:.2f}" for each in (by_all[row] if by_all else ())),
            ]
            for row, name in enumerate(report.classes)
        ]
        columns = ["true", *(report.classes if counts else ())]
        columns += [f"{name}, by all" for name in report.classes] if by_all else []
        tables.append(f"<div><h3>{identity(called(judge))}</h3>{_table(columns, rows)}</div>")
    if tables:
        note = (
            '<p class="soft">A row for each true class, a column for each answer: counts on gold, '
            "and probabilities by all labels.</p>"
        )
        yield _section(
            "What each judge confuses", note, f'<div class="row">{"".join(tables)}</div>'
        )


# Confidence and shares.


def _confidence(report: JuryReport) -> Iterable[str]:
    found = report.calibration
    if found is None:
        return
    note = (
        f'<p class="soft">On {report.gold:,} gold tasks, as if their truth were not known, '
        f"confidence is off by {found.ece:.3f} in the mean (ECE). Few tasks make that look larger "
        "than it is: see the intervals.</p>"
    )
    rows = [
        [
            f"{each.low:.1f} to {each.high:.1f}",
            f"{each.tasks:,}",
            _number(each.confidence),
            _number(each.right),
            f"{each.interval[0]:.2f} to {each.interval[1]:.2f}",
        ]
        for each in found.bins
    ]
    table = _table(["confidence", "tasks", "mean", "right", "95 %"], rows)
    diagram = f'<div class="row">{_diagram(found.bins)}{table}</div>'
    yield _section("Can confidence be believed?", note, diagram)


def _diagram(bins: list[Bin]) -> str:
    """Draw a reliability diagram: on the diagonal, predictions are as often right as sure."""
    size = SIDE - MARGIN - 10

    def x(value: float) -> str:
        return f"{MARGIN + size * value:.1f}"

    def y(value: float) -> str:
        return f"{10 + size * (1 - value):.1f}"

    marks = [
        f'<line class="axis" x1="{x(0)}" x2="{x(1)}" y1="{y(value)}" y2="{y(value)}"/>'
        f'<text x="{MARGIN - 5}" y="{float(y(value)) + 4:.1f}" text-anchor="end">{value:g}</text>'
        f'<text x="{x(value)}" y="{SIDE - 8}" text-anchor="middle">{value:g}</text>'
        for value in (0, 0.25, 0.5, 0.75, 1)
    ]
    marks.append(f'<line class="diagonal" x1="{x(0)}" y1="{y(0)}" x2="{x(1)}" y2="{y(1)}"/>')
    for each in bins:
        low, high = each.interval
        marks += [
            f'<line class="bar" x1="{x(each.confidence)}" x2="{x(each.confidence)}" '
            f'y1="{y(low)}" y2="{y(high)}"/>',
            f'<circle class="dot" cx="{x(each.confidence)}" cy="{y(each.right)}" r="4"/>',
        ]
    return (
        '<figure><svg role="img" aria-label="share right by confidence; the table has the numbers" '
        f'width="{SIDE}" height="{SIDE}" viewBox="0 0 {SIDE} {SIDE}">{"".join(marks)}</svg>'
        "<figcaption>Share right (up) by confidence (right), with 95 % intervals.</figcaption>"
        "</figure>"
    )


def _shares(report: JuryReport) -> Iterable[str]:
    if not report.shares:
        return
    rows = []
    for name, (share, ends) in report.shares.items():
        low, high = ends or (share, share)
        picture = (
            f'<svg role="img" aria-label="{share:.1%}" width="168" height="18" '
            'viewBox="-4 0 168 18"><rect class="track" x="0" y="7" width="160" height="4" rx="2"/>'
            f'<rect class="range" x="{160 * low:.1f}" y="5" width="{160 * (high - low):.1f}" '
            f'height="8" rx="2"/><circle class="dot" cx="{160 * share:.1f}" cy="9" r="4"/></svg>'
        )
        between = f"{low:.1%} to {high:.1%}" if ends else "–"
        rows.append([identity(name), picture, f"{share:.1%}", between])
    basis = "of gold tasks" if report.gold_only else "of all tasks, corrected by gold"
    basis = basis if any(share.interval for share in report.shares.values()) else "by labels alone"
    yield _section(
        "How frequent each class is",
        f'<p class="soft">The share {basis}.</p>',
        _table(["class", "", "share", "90 %"], rows),
    )


def _together(report: JuryReport) -> Iterable[str]:
    jury, wrong = report.jury, report.wrong
    rows = [
        ["Krippendorff's alpha, nominal", _number(jury.alpha, 3)],
        ["Krippendorff's alpha, if the classes are ordered", _number(jury.ordinal_alpha, 3)],
        ["Labels of a task, median", f"{jury.labels:g}"],
        ["Independent votes that they are worth", _number(jury.votes, 1)],
        ["Dependence: the part of a vote that is not its own", _number(jury.dependence)],
        ["Right on gold, weighed", f"{jury.right:,} of {report.gold:,}"],
        ["Right on gold, by majority", f"{jury.majority_right:,.1f} of {report.gold:,}"],
    ]
    if wrong:
        ends = wrong.interval
        between = f", {ends[0]:.1%} to {ends[1]:.1%} (90 %)" if ends else ""
        share = f"{wrong.share:.1%}{between}" if wrong.share is not None else "–"
        rows += [
            ["Wrong predictions, by gold", share],
            ["Wrong predictions, expected", f"{wrong.expected:,.1f} of {wrong.tasks:,}"],
            ["Wrong on gold by labels alone", f"{wrong.on_gold:,} of {report.gold:,}"],
            ["Wrong on gold, expected by labels alone", f"{wrong.expected_on_gold:,.1f}"],
        ]
    table = f'<div class="facts">{_table(["", ""], rows)}</div>'
    yield _section("All judges together", table)
