// The report on judges: what it says, and its tables; requested only while it is open.

import { byId, element, identity, say, shortened, show, svg } from "./dom.js";
import { count, money, moment, percent } from "./format.js";
import { frame } from "./frame.js";
import { interval } from "./marks.js";

const EVERY_MS = 15_000; // the gateway makes a report at most every ten seconds
const MOST_JUDGES = 20;
const MOST_PAIRS = 10;
const MOST_TASKS = 10;

/** The card of the report; `open` is called with the worker that the user chooses. */
export class Report {
  #api = null;
  #askedAt = -Infinity;
  #open;
  #frame;
  #bins = [];

  constructor(open) {
    this.#open = open;
    this.#frame = frame(byId("report-confidence"), () => this.#draw());
    byId("report").addEventListener("toggle", () => this.refresh());
  }

  use(api) {
    this.#api = api;
    this.#askedAt = -Infinity;
  }

  /** Request the report, if it is open and the last one is old. */
  async refresh() {
    if (!byId("report").open || this.#api === null) return;
    const now = performance.now();
    if (now < this.#askedAt + EVERY_MS) return;
    this.#askedAt = now;
    const api = this.#api;
    try {
      const report = await api.get("report");
      if (api === this.#api) this.#show(report);
    } catch (error) {
      this.#askedAt = -Infinity;
      say(byId("report-findings"), error.message);
    }
  }

  #show(report) {
    say(byId("report-findings"), report.findings.join(" "));
    byId("report-steps").replaceChildren(...report.next_steps.map((step) => element("li", {}, step)));
    const tasks = report.next.tasks.slice(0, MOST_TASKS);
    show(byId("report-tasks"), tasks.length > 0);
    const more = report.next.gold > tasks.length ? " …" : "";
    byId("report-tasks").replaceChildren("To be judged first: ", ...separated(tasks), more);
    this.#showJudges(report);
    this.#showPairs(report);
    this.#bins = report.calibration?.bins ?? [];
    const ece = report.calibration?.ece;
    const gold = `${count(report.gold)} gold tasks`;
    const off = ece === undefined ? "" : `On ${gold} confidence is off by ${percent(ece)} in the mean.`;
    say(byId("report-confidence-reading"), off || "No gold task says how far confidence can be believed.");
    this.#draw();
  }

  #showJudges({ judges }) {
    const rows = judges.slice(0, MOST_JUDGES).map((judge) => this.#judgeRow(judge));
    byId("report-judges").tBodies[0].replaceChildren(...rows);
  }

  #judgeRow(judge) {
    const { worker, name, gold, posterior, labels, cost, skip_share: skipped } = judge;
    const button = element("button", { type: "button", class: "link", "data-key": worker });
    button.append(shortened(worker));
    button.addEventListener("click", () => this.#open(worker));
    const who = element("span", { class: "who" }, button);
    if (name) who.append(element("bdi", { class: "aside" }, name));
    if (judge.drifting) who.append(chip("drifting", `answers otherwise since ${moment(judge.drifting)}`));
    if (judge.contradicted) who.append(chip("gold differs", "not what all labels say"));
    const shown = gold ?? posterior;
    const said = gold ? `${count(gold.right)} of ${count(gold.tasks)} gold` : "by all labels";
    const accuracy = shown
      ? [interval(shown.accuracy, shown.interval), percent(shown.accuracy), element("span", { class: "aside" }, ` ${said}`)]
      : ["–"];
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, who),
      element("td", { class: "accuracy" }, ...accuracy),
      element("td", { class: "count" }, gold?.kappa == null ? "–" : gold.kappa.toFixed(2)),
      element("td", { class: "count wide" }, gold ? percent(gold.base_rate) : "–"),
      element("td", { class: "count wide" }, posterior ? percent(posterior.accuracy) : "–"),
      element("td", { class: "count" }, count(labels), ...(cost === null ? [] : [element("span", { class: "aside" }, ` cost ${money(cost)}`)])),
      element("td", { class: "count wide" }, percent(skipped)),
    );
  }

  #showPairs({ pairs }) {
    const rows = pairs.slice(0, MOST_PAIRS).map(({ workers, contested, contested_agreement: agreement, kappa, gold, shared }) =>
      element(
        "tr",
        {},
        ...workers.map((worker) => element("td", {}, shortened(worker))),
        element("td", { class: "count" }, agreement === null ? "–" : percent(agreement)),
        element("td", { class: "count wide" }, count(contested)),
        element("td", { class: "count wide" }, kappa === null ? "–" : kappa.toFixed(2)),
        element("td", { class: "count" }, gold ? `${count(gold.same)} of ${count(gold.wrong)}` : "–"),
        element("td", { class: "count wide" }, shared > 0 ? percent(shared) : "–"),
      ),
    );
    byId("report-pairs").tBodies[0].replaceChildren(...rows);
    show(byId("report-pairs"), rows.length > 0);
  }

  /** A reliability diagram: on the diagonal, predictions are as often right as they are sure. */
  #draw() {
    if (!this.#bins.length) {
      this.#frame.clear();
      return;
    }
    const { left, right, top, bottom } = this.#frame.box;
    const x = (share) => left + (right - left) * share;
    const y = (share) => bottom - (bottom - top) * share;
    const summary = "How often predictions of each confidence are right, on gold";
    const quarters = [0, 0.25, 0.5, 0.75, 1];
    const text = (share) => `${Math.round(100 * share)} %`;
    this.#frame.draw(
      summary,
      ...this.#frame.rows(quarters, y, text),
      ...this.#frame.columns(quarters, x, text),
      svg("path", { class: "diagonal", d: `M${x(0)},${y(0)}L${x(1)},${y(1)}` }),
      ...this.#bins.flatMap(({ confidence, right: share, interval: [low, high], tasks }) => [
        svg("rect", { class: "cross", x: x(confidence) - 0.75, y: y(high), width: 1.5, height: y(low) - y(high) }),
        svg(
          "circle",
          { class: "dot", cx: x(confidence), cy: y(share), r: 5 },
          svg("title", {}, `${percent(share)} of ${count(tasks)} right`),
        ),
      ]),
    );
  }
}

const chip = (word, title) => element("span", { class: "chip warn", title }, word);

const separated = (tasks) => tasks.flatMap((task, n) => (n ? [", ", identity(task)] : [identity(task)]));
