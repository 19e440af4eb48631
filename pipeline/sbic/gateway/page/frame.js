// The SVG that a chart is drawn in: as wide as its container, with margins for ticks.

import { svg } from "./dom.js";

const HEIGHT = 220;
const MARGIN = { left: 46, right: 14, top: 10, bottom: 26 };

/** A frame in a container; `redraw` is called when its width has changed. */
export function frame(container, redraw) {
  const made = new Frame(container);
  let width = container.clientWidth;
  new ResizeObserver(() => {
    if (container.clientWidth === width) return;
    width = container.clientWidth;
    redraw();
  }).observe(container);
  return made;
}

class Frame {
  #container;
  #marks = svg("g", { class: "marks" });

  constructor(container) {
    this.#container = container;
  }

  /** The area for the curves, in pixels. */
  get box() {
    const width = Math.max(200, this.#container.clientWidth);
    return {
      left: MARGIN.left,
      right: width - MARGIN.right,
      top: MARGIN.top,
      bottom: HEIGHT - MARGIN.bottom,
    };
  }

  clear() {
    this.#container.replaceChildren();
  }

  /** Replace the drawing by these shapes; `summary` describes them in words. */
  draw(summary, ...shapes) {
    const width = this.box.right + MARGIN.right;
    this.#marks.replaceChildren();
    const picture = svg(
      "svg",
      { role: "img", "aria-label": summary, width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}` },
      ...shapes,
      this.#marks,
    );
    this.#container.replaceChildren(picture);
  }

  /** Draw shapes on top, until the next `draw`. */
  mark(...shapes) {
    this.#marks.replaceChildren(...shapes);
  }

  /** Horizontal grid lines, with their numbers on the left. */
  rows(values, y, format) {
    const { left, right } = this.box;
    return values.flatMap((value) => [
      svg("rect", { class: "grid", x: left, y: y(value), width: right - left, height: 1 }),
      svg("text", { class: "tick", x: left - 8, y: y(value) + 4, "text-anchor": "end" }, format(value)),
    ]);
  }

  /** Tick labels below; the outermost stay inside the drawing. */
  columns(values, x, format) {
    const { left, right, bottom } = this.box;
    return values.map((value) => {
      const place = x(value);
      const anchor = place > right - 24 ? "end" : place < left + 24 ? "start" : "middle";
      return svg("text", { class: "tick", x: place, y: bottom + 18, "text-anchor": anchor }, format(value));
    });
  }
}
