"""The page in a real browser, on a pipeline that runs."""

import re
import statistics
from collections.abc import Iterator
from time import time

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from tests.page.browser import Browser
from tests.page.crowd import HOSTILE, MARKUP, TASKS, WORKERS
from tests.page.show import BUDGET, CLASSES, Show

ROWS = 10  # that the page asks for at a time

NAMES = "return [...document.querySelectorAll(`${arguments[0]} bdi.id`)].map((each) => each.title)"
BELIEVED = "return import('./glance.js').then(({ believed }) => believed(arguments[0]))"
WARN = "return import('./glance.js').then(({ showWarnings }) => showWarnings(arguments[0]))"
CHOOSE = """
[...document.querySelectorAll(`${arguments[0]} button`)]
  .find((each) => each.dataset.key === arguments[1]).click()"""
WHILE_KAFKA_IS_AWAY = """
const answer = arguments[0];
const state = () => document.querySelector("#connection").textContent;
import("./freshness.js").then(({ Freshness }) => {
  let now = 0;
  const freshness = new Freshness(() => now);
  freshness.news(1);
  now = 11000;
  freshness.news(1);
  const stale = state();
  freshness.news(2);
  answer([stale, state()]);
});"""  # the same status again and again, by its own clock
WIDER = """
const wide = (each) => each.getBoundingClientRect().right > innerWidth + 0.5;
const isCut = (each) => each.closest(".unseen, td, th, .id, .skip");
return [...document.querySelectorAll("main *, header *, dialog[open] *")]
  .filter((each) => wide(each) && !isCut(each)).map((each) => each.outerHTML.slice(0, 80))"""


@pytest.fixture
def page(browser: Browser, show: Show) -> Iterator[Browser]:
    """The page, loaded, with the project whose classes have names; the console stays clean."""
    opened(browser, show)
    browser.complaints()
    yield browser
    assert browser.complaints() == []


def opened(browser: Browser, show: Show, width: int = 1600, theme: str = "light") -> None:
    browser.open(show.url, width, theme)
    browser.wait(lambda: browser.text("#connection") == "Live" or asks_token(browser))
    if asks_token(browser):
        browser.find("#token").send_keys(show.token, Keys.ENTER)
    browser.wait(lambda: browser.text("#connection") == "Live")
    browser.wait(lambda: len(browser.texts("#tasks tbody tr")) == ROWS)
    browser.wait(lambda: len(browser.texts("#workers tbody tr")) == ROWS)
    browser.wait(lambda: browser.run("return document.querySelector('#confidence svg') !== null"))


def asks_token(browser: Browser) -> bool:
    return browser.find("#token").is_displayed()


def number(text: str) -> float:
    """The first number in a text."""
    found = re.search(r"[\d,]+(\.\d+)?", text)
    assert found, text
    return float(found[0].replace(",", ""))


def test_the_numbers_are_those_of_the_topics(page: Browser, show: Show) -> None:
    page.wait(lambda: number(page.text("#labels")) == len(show.pets.labels))
    page.wait(lambda: page.text("#settled") == "Settled")
    posteriors, workers = show.pets.posteriors(), show.pets.workers()
    labels = sum(posterior["labels"] for posterior in posteriors)
    assert labels == len(show.pets.labels)
    wrong = sum(1 - posterior["confidence"] for posterior in posteriors)
    page.wait(lambda: number(page.text("#wrong")) == pytest.approx(wrong, abs=0.06))
    assert number(page.text("#open")) == sum(each["status"] == "open" for each in posteriors)
    closed = sum(each["status"] == "closed" for each in posteriors)
    assert number(page.text("#closed")) == closed > 0
    assert page.text("#reasons") == f": labels {closed}"
    assert number(page.text("#budget-left")) == BUDGET - labels
    assert page.text("#workers-known") == str(len(workers))
    certain = sum(each["confidence"] >= 0.95 for each in posteriors)
    assert number(page.text("#confidence-reading")) == certain
    assert page.text("#letters-total") == "3"
    blocked = [each for each in workers if each["accuracy"] < 0.68 and each["labels"] >= 10]
    Select(page.find("#workers .order")).select_by_value("worst")
    most = min(len(blocked), ROWS)
    page.wait(lambda: page.texts("#workers tbody .chip").count("blocked") == most > 0)
    assert page.text("#instances tbody tr td.state") == "up to date"
    least = sorted(each["confidence"] for each in posteriors if each["labels"] > 1)[:ROWS]
    shown = [number(text) / 100 for text in page.texts("#tasks tbody td.sure")]
    assert shown == pytest.approx(least, abs=0.0006)
    by_name = {each["worker"]: each for each in workers}
    rows = page.run(NAMES, "#workers tbody"), page.texts("#workers tbody tr")
    for name, row in zip(*rows, strict=True):
        assert f"{100 * by_name[name]['accuracy']:.1f} %" in row
        assert row.split()[-1] == str(by_name[name]["labels"])


def test_it_says_how_far_the_expected_errors_can_be_believed(page: Browser, show: Show) -> None:
    assert page.text("#wrong-believed") == "estimated from labels alone: no gold task checks it"
    page.wait(lambda: page.find("#shares").is_displayed())
    assert page.text("#shares").startswith("Share of each class, by labels alone: ")
    assert all(f"{name} " in page.text("#shares") for name in CLASSES)
    votes = [each["effective_votes"] for each in show.pets.posteriors() if each["labels"]]
    page.wait(
        lambda: number(page.text("#votes")) == pytest.approx(statistics.median(votes), abs=0.06)
    )
    assert "independent votes a task" in page.text("#votes")
    honesty = {"gold": 30, "interval": [0.2, 0.5], "gold_to_halve": 90, "is_calibrated": True}
    counts = {"wrong_on_gold": 12, "expected_wrong_on_gold": 3.04, "is_contradicted": True}
    contradicted = page.run(BELIEVED, honesty | counts)
    assert contradicted == (
        "20.0 % to 50.0 %, calibrated by 30 gold; 90 more would halve that. "
        "Gold contradicts labels: they expected 3.0 of 30 wrong, not 12"
    )


def test_labels_that_expire_are_warned_of_above_all_figures(page: Browser, show: Show) -> None:
    page.wait(lambda: number(page.text("#labels")) == len(show.pets.labels))
    assert not page.find("#warnings").is_displayed()
    expired = "20 labels have expired from pets.labels", "3 of them before they were counted"
    page.run(WARN, expired)
    assert page.text("#warnings") == "; ".join(expired)
    page.wait(lambda: not page.find("#warnings").is_displayed())  # the status of now has none


def test_labels_that_come_in_are_seen_without_a_reload(page: Browser, show: Show) -> None:
    page.wait(lambda: number(page.text("#labels")) == len(show.pets.labels))
    before, workers = number(page.text("#labels")), int(page.text("#workers-known"))
    points = page.run("return document.querySelector('#history-reading').textContent")
    show.pets.send([("task-50", "late-comer", CLASSES[0]), ("task-51", "late-comer", CLASSES[1])])
    page.wait(lambda: number(page.text("#labels")) == before + 2)
    page.wait(lambda: int(page.text("#workers-known")) == workers + 1)
    page.wait(lambda: page.text("#history-reading") != points)
    page.wait(lambda: "ms" in page.text("#median") or " s" in page.text("#median"))


def test_a_click_on_a_task_shows_its_labels_and_one_on_a_worker_what_is_known(
    page: Browser, show: Show
) -> None:
    task = page.run("return document.querySelector('#tasks tbody bdi.id').title")
    page.click("#tasks tbody tr td.says")
    page.wait(lambda: "Labels that stand" in page.text("#details"))
    assert page.run("return document.querySelector('#details-title').textContent") == task
    given = {worker: label for each, worker, label in show.pets.labels if each == task}
    workers = page.run(
        "return [...document.querySelectorAll('.answers tbody th bdi')].map((e) => e.title)"
    )
    said = page.texts(".answers tbody td:nth-child(2)")
    assert dict(zip(workers, said, strict=True)) == given
    page.screenshot("task")
    page.click(".answers tbody th button")
    page.wait(lambda: "Last seen" in page.text("#details"))
    assert page.run("return document.querySelector('#details-title').textContent") == workers[0]
    mine = {each: label for each, worker, label in show.pets.labels if worker == workers[0]}
    tasks = page.run(
        "return [...document.querySelectorAll('.answers tbody th bdi')].map((e) => e.title)"
    )
    said = page.texts(".answers tbody td:nth-child(2)")
    assert dict(zip(tasks, said, strict=True)) == mine
    page.click("#details .back")
    page.wait(lambda: "Labels that stand" in page.text("#details"))
    page.press(Keys.ESCAPE)
    page.wait(lambda: not page.find("#details").is_displayed())


def test_hostile_names_do_nothing(page: Browser) -> None:
    title, seen = page.driver.title, set()
    for turn in range(1, -(-WORKERS // ROWS) + 1):
        page.wait(lambda turn=turn: page.text("#workers .pager span") == f"Page {turn}")  # type: ignore[misc]
        for name in set(page.run(NAMES, "#workers tbody")) & set(HOSTILE):
            page.run(CHOOSE, "#workers tbody", name)
            page.wait(lambda name=name: page.run(NAMES, "#details-title") == [name])  # type: ignore[misc]
            page.wait(lambda: page.text("#details-body") != "Loading")
            if name != "..":
                page.wait(lambda: "Last seen" in page.text("#details-body"))
            assert page.run(WIDER) == []
            page.press(Keys.ESCAPE)
            seen.add(name)
        page.click("#workers .pager button:last-child")
    assert seen == set(HOSTILE)
    assert (
        page.run("return document.querySelectorAll('main img, dialog img, body script').length")
        == 0
    )
    assert page.driver.title == title
    assert page.run(WIDER) == []


def test_hostile_tasks_do_nothing_either(page: Browser) -> None:
    Select(page.find("#tasks .order")).select_by_value("recent")
    for turn in range(1, TASKS // ROWS + 1):
        page.wait(lambda turn=turn: page.text("#tasks .pager span") == f"Page {turn}")  # type: ignore[misc]
        assert page.run(WIDER) == []
        page.click("#tasks .pager button:last-child")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1200, 1600])
def test_it_is_legible_and_accessible_at_every_width_in_light_and_dark(
    browser: Browser, show: Show, width: int, theme: str
) -> None:
    opened(browser, show, width, theme)
    assert browser.overflow() <= 0
    assert browser.run(WIDER) == []
    assert browser.audit() == []
    browser.screenshot(f"page-{width}-{theme}")
    browser.click("#tasks tbody button")
    browser.wait(lambda: "Labels that stand" in browser.text("#details"))
    assert browser.audit() == []
    assert browser.overflow() <= 0


def test_the_audit_finds_what_is_wrong(page: Browser) -> None:
    page.run("document.querySelector('#labels').style.color = '#999'")
    page.run("document.querySelector('#tasks caption').remove()")
    page.run("document.querySelector('main').append(document.createElement('select'))")
    page.run("document.querySelector('main').append(document.createElement('img'))")
    contrast, *others = page.audit()
    assert contrast.startswith("contrast 2.8")
    wanted = (
        "no name: <select></select>",
        "a table without a caption",
        "a picture without words: <img>",
    )
    assert tuple(others) == wanted


def test_everything_can_be_done_with_the_keyboard(page: Browser) -> None:
    page.press(Keys.TAB)
    assert page.run("return document.activeElement.className") == "skip"
    page.tab_to("#project")
    page.tab_to("#axis input")
    page.press(Keys.ARROW_RIGHT)
    page.wait(lambda: ":" in page.texts("#history .tick")[-1])
    page.tab_to("#tasks tbody button")
    task = page.run("return document.activeElement.dataset.key")
    page.press(Keys.ENTER)
    page.wait(lambda: page.run(NAMES, "#details-title") == [task])
    page.wait(lambda: "Labels that stand" in page.text("#details"))
    page.tab_to("#details .answers button")
    page.press(Keys.ENTER)
    page.wait(lambda: "Last seen" in page.text("#details"))
    page.press(Keys.ESCAPE)
    page.wait(lambda: not page.find("#details").is_displayed())
    assert page.run("return document.activeElement.dataset.key") == task, (
        "the focus is where it was"
    )
    page.tab_to("#tasks .pager button:last-child")
    page.press(Keys.ENTER)
    page.wait(lambda: page.text("#tasks .pager span") == "Page 2")


def test_another_project_can_be_chosen_and_has_classes_without_names(
    page: Browser, show: Show
) -> None:
    signs = show.signs
    options = page.texts("#project option")
    assert options == [show.pets.prefix, signs.prefix]
    Select(page.find("#project")).select_by_value(signs.prefix)
    page.wait(lambda: number(page.text("#labels")) == len(signs.labels))
    assert "−1, 1" in page.text("#facts")
    page.wait(lambda: len(page.texts("#tasks tbody tr")) == ROWS)
    assert set(page.texts("#tasks tbody td.says")) <= {"1", "−1", "tie"}
    page.click("#tasks tbody button")
    page.wait(lambda: len(page.texts("#details table:first-of-type tbody tr")) == 2)
    page.driver.refresh()
    page.wait(lambda: number(page.text("#labels")) == len(signs.labels))


def test_a_token_is_asked_for_until_it_is_right(browser: Browser, show: Show) -> None:
    opened(browser, show)
    browser.run("sessionStorage.clear()")
    browser.driver.refresh()
    browser.wait(lambda: asks_token(browser))
    assert browser.audit() == []
    assert browser.text("#labels") == "–", "nothing is shown without"
    browser.find("#token").send_keys("wrong", Keys.ENTER)
    browser.wait(lambda: "Try another" in browser.text("#token-why"))
    browser.find("#token").send_keys(show.token, Keys.ENTER)
    browser.wait(lambda: browser.text("#connection") == "Live")
    browser.driver.refresh()
    browser.wait(lambda: browser.text("#connection") == "Live")
    browser.complaints()  # the requests that were refused


def test_figures_that_stay_as_they_were_are_not_called_live(page: Browser) -> None:
    stale, fresh = page.driver.execute_async_script(WHILE_KAFKA_IS_AWAY)
    assert stale.startswith("No update since ")
    assert fresh == "Live"


def test_a_restart_of_the_gateway_is_survived(browser: Browser, show: Show) -> None:
    opened(browser, show)
    labels = browser.text("#labels")
    show.stop_gateway()
    browser.wait(lambda: browser.text("#connection").startswith("Connection lost since "))
    assert browser.text("#labels") == labels, "the last figures stay"
    assert browser.audit() == []
    browser.screenshot("lost")
    show.start_gateway()
    browser.wait(lambda: browser.text("#connection") == "Live")
    assert not browser.find("#problem").is_displayed()
    browser.complaints()  # the requests that nobody answered


def test_long_ids_are_told_apart_on_a_phone(page: Browser, show: Show) -> None:
    page.size(400)
    shown = page.run("""
      return import("./dom.js").then(({ element, shortened }) => {
        const button = element("button", { class: "link" }, shortened("pets-in-2026-00417"));
        document.querySelector("#tasks tbody th").replaceChildren(button);
        const [head, whole] = [button.querySelector(".head"), button.querySelector("bdi")];
        return [head.scrollWidth > head.clientWidth, whole.scrollWidth <= whole.clientWidth];
      })""")
    assert shown == [True, True]  # the head is cut, and the end is not


def test_a_project_that_is_not_there_is_said_to_be_missing(browser: Browser, show: Show) -> None:
    opened(browser, show)
    browser.open(f"{show.url}?project=nope")
    browser.wait(lambda: "no project nope" in browser.text("#no-project"))
    assert show.pets.prefix in browser.text("#no-project")


def test_an_owner_closes_and_reopens_a_task_and_sets_its_gold(page: Browser) -> None:
    facts = "#details .facts-list"
    page.click("#tasks tbody tr td.says")
    page.wait(lambda: page.find("#task-actions").is_displayed())
    before = "closed" in page.text(facts)
    page.click("#task-status")
    page.driver.switch_to.alert.dismiss()  # asked again, and not sent
    assert page.text("#task-said") == ""
    for is_closed in (not before, before):
        page.click("#task-status")
        page.driver.switch_to.alert.accept()
        page.wait(lambda is_closed=is_closed: ("closed" in page.text(facts)) is is_closed)  # type: ignore[misc]
    assert page.text("#task-said").startswith("Sent")
    Select(page.find("#task-gold")).select_by_visible_text("bird")
    page.click("#task-gold-set")
    assert "bird" in page.driver.switch_to.alert.text
    page.driver.switch_to.alert.accept()
    page.wait(lambda: "gold" in page.text(facts))
    assert page.audit() == []
    page.screenshot("actions")
    Select(page.find("#task-gold")).select_by_visible_text("none")
    page.click("#task-gold-set")
    page.driver.switch_to.alert.accept()
    page.wait(lambda: "gold" not in page.text(facts))


def test_an_owner_blocks_and_unblocks_a_worker(page: Browser) -> None:
    page.click("#workers tbody tr td.accuracy")
    page.wait(lambda: page.find("#worker-actions").is_displayed())
    assert not page.find("#task-actions").is_displayed()
    page.click("#worker-block")
    page.driver.switch_to.alert.dismiss()  # asked again, and not sent
    assert page.text("#worker-said") == ""
    for button, said in (
        ("#worker-block", "By the owner blocked"),
        ("#worker-unblock", "By the owner unblocked"),
    ):
        page.click(button)
        page.driver.switch_to.alert.accept()
        page.wait(lambda said=said: said in " ".join(page.text("#details").split()))  # type: ignore[misc]
    assert page.text("#worker-said").startswith("Sent")
    assert page.audit() == []
    page.click("#worker-by-rule")
    page.driver.switch_to.alert.accept()
    page.wait(lambda: "By the owner" not in page.text("#details"))
    page.wait(lambda: not page.find("#worker-by-rule").is_displayed())


def test_an_owner_changes_a_stop_rule(page: Browser) -> None:
    page.wait(lambda: "budget" in page.text("#rule"))
    Select(page.find("#rule")).select_by_visible_text("stop_confidence")
    value = page.find("#rule-value")
    assert value.get_attribute("value") == ""
    value.send_keys("0.9999")
    page.click("#rule-set")
    page.driver.switch_to.alert.dismiss()  # asked again, and not sent
    assert page.text("#rule-said") == ""
    page.click("#rule-set")
    assert "stop_confidence be 0.9999" in page.driver.switch_to.alert.text
    page.driver.switch_to.alert.accept()
    page.wait(lambda: page.text("#rule-said") == "Changed.")
    page.wait(lambda: "0.9999" in page.text("#settings"))
    assert page.audit() == []
    value.clear()
    page.click("#rule-set")
    page.driver.switch_to.alert.accept()
    page.wait(lambda: "0.9999" not in page.text("#settings"))


def test_sinks_are_shown_with_their_lag_and_their_last_sign_of_life(
    page: Browser, show: Show
) -> None:
    page.wait(lambda: page.text("#settled") == "Settled")
    assert not page.find("#sinks").is_displayed()
    now = int(1000 * time())
    show.pets.commit_as_sink("crowd.db", 2, now + 3_600_000)  # it stays alive for the test
    show.pets.commit_as_sink("postgresql", 0, now - 600_000)
    page.wait(lambda: len(page.texts("#sinks tbody tr")) == 2)
    page.wait(lambda: page.texts("#sinks tbody td.count") == ["2", "0"])
    assert page.texts("#sinks tbody td.state") == ["catching up", "silent for 10 minutes"]
    assert page.run(NAMES, "#sinks tbody") == ["crowd.db", "postgresql"]


def test_a_worker_who_drifts_or_whom_gold_contradicts_is_marked(page: Browser, show: Show) -> None:
    known = {"labels": 500, "correct": 10.0, "last_seen": 1_700_000_000_000}
    turned = {"worker": "turned", "accuracy": 0.02, "interval": [0.01, 0.03], **known}
    close = {"worker": "twin", "tasks": 60, "agreement": 0.98, "errors_alike": 0.9, "shared": 0.6}
    told = {"drifting": 1_700_000_000_000, "contradicted": True, "agrees_with": [close]}
    show.pets.send_worker({**turned, "gold": 20, "gold_right": 15, **told})
    Select(page.find("#workers .order")).select_by_value("worst")
    page.wait(lambda: "turned" in page.run(NAMES, "#workers tbody"))
    chips = page.texts("#workers tbody tr:first-child .chip")
    assert {"drifting", "gold differs"} <= set(chips)
    page.run(CHOOSE, "#workers tbody", "turned")
    page.wait(lambda: "Errs together with" in page.text("#details"))
    details = page.text("#details")
    assert "Answers otherwise since" in details
    assert "15 of 20 right: not what all labels say" in details
    assert "twin agrees on 98.0 % of 60 contested tasks, 60.0 % of a vote shared" in details
    assert page.audit() == []


def test_the_report_is_asked_for_once_it_is_opened(page: Browser, show: Show) -> None:
    page.wait(lambda: number(page.text("#labels")) == len(show.pets.labels))
    assert not page.find("#report-findings").is_displayed()
    page.click("#report summary")
    page.wait(lambda: "Whom to trust rests on agreement alone" in page.text("#report-findings"))
    assert page.texts("#report-steps li")[0].startswith("Have people judge 50 tasks")
    workers = {worker for _, worker, _ in show.pets.labels}
    page.wait(lambda: len(page.texts("#report-judges tbody tr")) == min(len(workers), 20))
    assert set(page.run(NAMES, "#report-judges tbody")) <= workers
    assert page.texts("#report-pairs tbody tr")
    assert "No gold task says" in page.text("#report-confidence-reading")
    assert page.audit() == []
    page.screenshot("report")
    page.run("document.querySelector('#report-judges tbody button').click()")
    page.wait(lambda: page.text("#details-kind") == "Worker")
    page.press(Keys.ESCAPE)
    for width in (400, 1600):
        page.size(width)
        assert page.run(WIDER) == []
        assert page.overflow() <= 0
        page.screenshot(f"report-{width}")


RELIABLE = """
const [report, done] = [arguments[0], arguments[1]];
import("./report.js").then(({ Report }) => {
  const shown = new Report(() => {});
  shown.use({ get: async () => report });
  shown.refresh().then(() => done(document.querySelectorAll("#report-confidence circle").length));
});"""


def test_the_report_shows_gold_and_hostile_names_as_text(page: Browser) -> None:
    errors = {"wrong": 9, "same": 4, "share": 4 / 9, "chance": 0.01}
    gold = {"tasks": 50, "right": 41, "accuracy": 0.82, "interval": [0.69, 0.9], "base_rate": 0.5}
    judge = {
        "worker": MARKUP,
        "name": MARKUP,
        "labels": 50,
        "skips": 1,
        "skip_share": 0.02,
        "gold": {**gold, "kappa": 0.6, "confusion": None},
        "posterior": None,
        "behind": None,
        "contradicted": True,
        "drifting": 1_700_000_000_000,
    }
    pair = {
        "workers": [MARKUP, "b"],
        "tasks": 50,
        "agreement": 0.9,
        "kappa": 0.8,
        "contested": 20,
        "contested_agreement": 0.5,
        "shared": 0.5,
        "gold": errors,
        "posterior": None,
    }
    one = {"low": 0.8, "high": 0.9, "tasks": 30, "confidence": 0.85, "right": 0.8}
    report = {
        "findings": [f"Trust {MARKUP} most."],
        "next_steps": [],
        "gold": 50,
        "judges": [judge],
        "pairs": [pair],
        "next": {"gold": 1, "tasks": [MARKUP]},
        "calibration": {"ece": 0.05, "bins": [{**one, "interval": [0.6, 0.9]}]},
    }
    page.click("#report summary")
    page.wait(lambda: "Whom to trust" in page.text("#report-findings"))  # and not for 15 s again
    assert page.driver.execute_async_script(RELIABLE, report) == 1
    assert page.text("#report-findings") == f"Trust {MARKUP} most."
    row = page.text("#report-judges tbody tr")
    assert all(
        word in row for word in ("82.0 %", "41 of 50 gold", "0.60", "drifting", "gold differs")
    )
    assert "4 of 9" in page.text("#report-pairs tbody tr")
    assert "off by 5.0 % in the mean" in page.text("#report-confidence-reading")
    assert page.run("return document.querySelectorAll('#report script, #report b').length") == 0
