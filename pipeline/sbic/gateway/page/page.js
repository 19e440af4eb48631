// The page: follows the gateway's events, and requests the rest when something has changed.

import { Api } from "./api.js";
import { follow } from "./connection.js";
import { Details } from "./details.js";
import { byId, say, show } from "./dom.js";
import { count, moment, percent } from "./format.js";
import { Freshness } from "./freshness.js";
import { showGlance, showLatency } from "./glance.js";
import { Histogram } from "./histogram.js";
import { HistoryChart } from "./history_chart.js";
import { Listing } from "./listing.js";
import { showMachinery } from "./machinery.js";
import { Projects } from "./projects.js";
import { Report } from "./report.js";
import { Rules } from "./rules.js";
import { taskRow } from "./tasks.js";
import { askToken } from "./token.js";
import { blockingOf, workerRow } from "./workers.js";

const REFRESH_MS = 2000; // the shortest time between two requests for the rest

class Page {
  #api = null;
  #ending = new AbortController();
  #blocking = null;
  #isDue = false;
  #isRefreshing = false;
  #projects = new Projects(() => this.#restart());
  #freshness = new Freshness();
  #details = new Details();
  #report = new Report((worker) => this.#details.openWorker(worker));
  #rules = new Rules();
  #history = new HistoryChart();
  #histogram = new Histogram();
  #tasks = new Listing(byId("tasks"), "tasks", (posterior) =>
    taskRow(posterior, (task) => this.#details.openTask(task)),
  );
  #workers = new Listing(byId("workers"), "workers", (worker) =>
    workerRow(worker, this.#blocking, (id) => this.#details.openWorker(id)),
  );

  start() {
    document.addEventListener("visibilitychange", () => this.#follow());
    this.#restart();
  }

  /** Show the chosen project instead of the previous one. */
  #restart() {
    this.#api = new Api(() => this.#projects.prefix);
    for (const part of [this.#tasks, this.#workers, this.#report, this.#details]) part.use(this.#api);
    this.#follow();
  }

  /** Follow events while the page is visible: a browser shares six connections among its tabs. */
  #follow() {
    this.#ending.abort();
    if (document.hidden) return;
    this.#ending = new AbortController();
    const [api, { signal }] = [this.#api, this.#ending];
    follow(api, signal, {
      connected: () => this.#connected(api, signal),
      heard: (event) => this.#heard(event),
      lost: (since, why) => this.#freshness.lost(since, why),
      askToken,
    });
  }

  async #connected(api, ending) {
    const projects = await api.get("projects");
    if (ending.aborted) return;
    this.#projects.learn(projects);
    this.#details.classes = this.#projects.labels;
    const status = await api.get("status");
    if (ending.aborted) return;
    this.#showStatus(status);
    await this.#rules.use(api);
  }

  #heard({ name, data }) {
    if (name === "status") this.#showStatus(data);
    else if (name === "posteriors") this.#refreshSoon();
  }

  #showStatus(status) {
    this.#blocking = blockingOf(status.settings);
    this.#details.blocking = this.#blocking;
    this.#freshness.news(status.at);
    showGlance(status);
    showMachinery(status);
    showSettled(status.settled, status.settings.algorithm === "settled");
    showBlocking(this.#blocking);
    say(byId("workers-known"), count(status.workers.known));
    say(byId("as-of"), moment(status.at));
    this.#refreshSoon();
  }

  /** Request all that is not in the status: now, or when `REFRESH_MS` have passed. */
  async #refreshSoon() {
    this.#isDue = true;
    if (this.#isRefreshing || document.hidden) return;
    this.#isRefreshing = true;
    while (this.#isDue && !document.hidden) {
      this.#isDue = false;
      await this.#refresh(this.#api).catch(() => {}); // the event stream reports a lost connection
      await new Promise((resolve) => setTimeout(resolve, REFRESH_MS));
    }
    this.#isRefreshing = false;
  }

  async #refresh(api) {
    this.#report.refresh(); // which may take seconds: nothing waits for it
    const [history, confidence] = await Promise.all([
      api.get("history"),
      api.get("confidence"),
      this.#tasks.refresh(),
      this.#workers.refresh(),
      this.#details.refresh(),
    ]);
    if (api !== this.#api) return;
    this.#history.show(history.points);
    this.#histogram.show(confidence.bins, this.#projects.classes);
    showLatency(confidence.latency);
  }
}

function showSettled({ is_settled: isSettled, why, tasks_due: due }, canSettle) {
  const chip = byId("settled");
  show(chip, canSettle);
  chip.title = why;
  chip.dataset.state = isSettled ? "good" : "plain";
  const moving = due ? `Settling: ${count(due)} tasks due` : "Not settled";
  say(chip, isSettled === null ? "Settled: not known" : isSettled ? "Settled" : moving);
}

function showBlocking(blocking) {
  show(byId("blocking"), blocking !== null);
  if (blocking === null) return;
  const { below, after } = blocking;
  say(byId("blocking"), `Blocked: accuracy below ${percent(below)} after ${count(after)} labels.`);
}

new Page().start();
