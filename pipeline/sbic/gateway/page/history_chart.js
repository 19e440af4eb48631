// The chart of expected wrong predictions, by labels or over time.

import { ceiling, ticks } from "./axes.js";
import { byId, say, svg } from "./dom.js";
import { clock, compact, count, decimal } from "./format.js";
import { frame } from "./frame.js";

const Y_TICKS = 5;
const TICK_WIDTH = 90;

/** The chart; redrawn for every new history, axis and width. */
export class HistoryChart {
  #frame;
  #points = [];

  constructor() {
    this.#frame = frame(byId("history"), () => this.#draw());
    byId("axis").addEventListener("change", () => this.#draw());
    byId("history").addEventListener("pointermove", (event) => this.#point(event.offsetX));
    byId("history").addEventListener("pointerleave", () => this.#draw());
  }

  show(points) {
    this.#points = points.filter((point) => point.open + point.closed > 0); // without the empty start
    if (!byId("history").matches(":hover")) this.#draw();
  }

  get #axis() {
    return byId("axis").querySelector("input:checked").value;
  }

  #draw() {
    const points = this.#points;
    if (points.length < 2) {
      this.#frame.clear();
      say(byId("history-reading"), "The curve begins with the next labels.");
      return;
    }
    const scale = this.#scale();
    const line = points.map((point, n) => `${n ? "L" : "M"}${scale.place(point)}`).join("");
    const { left, right, bottom } = this.#frame.box;
    const last = points.at(-1);
    const [from, to] = [scale.x(points[0]).toFixed(1), scale.x(last).toFixed(1)];
    const summary = this.#summary();
    this.#frame.draw(
      summary,
      ...this.#frame.rows(scale.rows, scale.y, compact),
      ...this.#frame.columns(scale.columns, scale.column, this.#axis === "at" ? clock : compact),
      svg("path", { class: "area", d: `${line}L${to},${bottom}L${from},${bottom}Z` }),
      svg("path", { class: "line", d: line }),
      svg("circle", { class: "dot", cx: scale.x(last), cy: scale.y(last.expected_wrong), r: 4 }),
      svg("rect", { class: "base", x: left, y: bottom, width: right - left, height: 1 }),
    );
    say(byId("history-reading"), summary);
  }

  #scale() {
    const { left, right, top, bottom } = this.#frame.box;
    const axis = this.#axis;
    const most = ceiling(Math.max(...this.#points.map((point) => point.expected_wrong)), Y_TICKS);
    const from = this.#points[0][axis];
    const to = Math.max(this.#points.at(-1)[axis], from + 1);
    const column = (value) => left + ((right - left) * (value - from)) / (to - from);
    const y = (value) => bottom - ((bottom - top) * value) / most;
    const x = (point) => column(point[axis]);
    const wanted = Math.max(2, Math.floor((right - left) / TICK_WIDTH));
    return {
      x,
      y,
      column,
      place: (point) => `${x(point).toFixed(1)},${y(point.expected_wrong).toFixed(1)}`,
      rows: ticks(0, most, Y_TICKS),
      columns: axis === "at" ? evenly(from, to, wanted) : ticks(from, to, wanted, 1),
    };
  }

  #summary() {
    const [first, last] = [this.#points[0], this.#points.at(-1)];
    const said = ({ expected_wrong: wrong, labels }) => `${decimal(wrong)} at ${count(labels)} labels`;
    return `From ${said(first)} to ${said(last)}.`;
  }

  /** Describe the point nearest to the pointer. */
  #point(offset) {
    if (this.#points.length < 2) return;
    const scale = this.#scale();
    const distance = (point) => Math.abs(scale.x(point) - offset);
    const nearest = this.#points.reduce((best, point) => (distance(point) < distance(best) ? point : best));
    const { at, labels, expected_wrong: wrong, open, closed } = nearest;
    const [x, y] = [scale.x(nearest), scale.y(wrong)];
    const { top, bottom } = this.#frame.box;
    this.#frame.mark(
      svg("rect", { class: "cross", x: x - 0.5, y: top, width: 1, height: bottom - top }),
      svg("circle", { class: "dot", cx: x, cy: y, r: 4 }),
    );
    const then = `${clock(at)}: ${decimal(wrong)} at ${count(labels)} labels`;
    say(byId("history-reading"), `${then}; ${count(open)} tasks open, ${count(closed)} closed.`);
  }
}

function evenly(from, to, parts) {
  return Array.from({ length: parts }, (_, n) => from + ((to - from) * n) / (parts - 1));
}
