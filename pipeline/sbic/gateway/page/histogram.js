// The histogram of the confidence of predictions.

import { ceiling, ticks } from "./axes.js";
import { byId, say, svg } from "./dom.js";
import { compact, count, percent } from "./format.js";
import { frame } from "./frame.js";

const Y_TICKS = 5;
const SURE = 0.95;

/** The histogram; it begins at 1 / classes, since no prediction is less certain than that. */
export class Histogram {
  #frame;
  #bins = [];
  #first = 0;

  constructor() {
    this.#frame = frame(byId("confidence"), () => this.#draw());
  }

  show(bins, classes) {
    this.#bins = bins;
    this.#first = Math.floor(bins.length / classes + 1e-9);
    while (this.#first > 0 && bins[this.#first - 1] > 0) this.#first -= 1;
    this.#draw();
  }

  #draw() {
    const total = this.#bins.reduce((sum, bin) => sum + bin, 0);
    if (!total) {
      this.#frame.clear();
      say(byId("confidence-reading"), "No tasks yet.");
      return;
    }
    const shown = this.#bins.slice(this.#first);
    const { left, right, top, bottom } = this.#frame.box;
    const most = ceiling(Math.max(...shown), Y_TICKS);
    const y = (value) => bottom - ((bottom - top) * value) / most;
    const width = (right - left) / shown.length;
    const from = this.#first / this.#bins.length;
    const x = (share) => left + ((right - left) * (share - from)) / (1 - from);
    const summary = this.#summary(total);
    this.#frame.draw(
      summary,
      ...this.#frame.rows(ticks(0, most, Y_TICKS), y, compact),
      ...this.#frame.columns(ticks(from, 1, 4), x, (share) => `${Math.round(100 * share)} %`),
      ...shown.map((bin, n) => this.#bar(bin, n, left + n * width, width, y, bottom)),
      svg("rect", { class: "base", x: left, y: bottom, width: right - left, height: 1 }),
    );
    say(byId("confidence-reading"), summary);
  }

  #bar(bin, n, x, width, y, bottom) {
    const size = this.#bins.length;
    const edges = [this.#first + n, this.#first + n + 1].map((edge) => Math.round((100 * edge) / size));
    const height = bin ? Math.max(1.5, bottom - y(bin)) : 0;
    return svg(
      "rect",
      { class: "column", x: x + 1.5, y: bottom - height, width: Math.max(1, width - 3), height, rx: 2 },
      svg("title", {}, `${edges[0]} to ${edges[1]} %: ${count(bin)}`),
    );
  }

  #summary(total) {
    const from = Math.round(SURE * this.#bins.length);
    const sure = this.#bins.slice(from).reduce((sum, bin) => sum + bin, 0);
    const share = percent(sure / total);
    return `${count(sure)} of ${count(total)} tasks (${share}) are at least ${100 * SURE} % certain.`;
  }
}
