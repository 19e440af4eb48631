// Small graphics beside numbers; the number itself is always present as text.

import { element, svg } from "./dom.js";

const WIDTH = 100;
const HEIGHT = 10;

/** A share of 1 as a bar. */
export function bar(share, kind = "") {
  const fill = element("span", { class: `fill ${kind}` });
  fill.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
  return element("span", { class: "bar", "aria-hidden": "true" }, fill);
}

/** A value from 0 to 1 and its interval; the mark in the middle is one half. */
export function interval(value, [low, high]) {
  const x = (share) => (WIDTH * share).toFixed(2);
  return svg(
    "svg",
    {
      class: "interval",
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: "none",
      "aria-hidden": "true",
    },
    svg("rect", { class: "track", x: 0, y: 4, width: WIDTH, height: 2 }),
    svg("rect", { class: "half", x: WIDTH / 2 - 0.5, y: 2, width: 1, height: 6 }),
    svg("rect", { class: "range", x: x(low), y: 3, width: x(Math.max(high - low, 0.01)), height: 4 }),
    svg("rect", { class: "value", x: x(Math.max(0, value - 0.012)), y: 0.5, width: 2.4, height: 9 }),
  );
}

/** A stacked bar of shares: the first ones separate, the others together. */
export function shares(pairs, most = 4) {
  const parts = pairs.slice(0, most).map(([, share], place) => {
    const part = element("span", { class: `part part-${place}` });
    part.style.flexGrow = String(share);
    return part;
  });
  const rest = pairs.slice(most).reduce((sum, [, share]) => sum + share, 0);
  if (rest > 0) {
    const part = element("span", { class: "part part-rest" });
    part.style.flexGrow = String(rest);
    parts.push(part);
  }
  return element("span", { class: "shares", "aria-hidden": "true" }, ...parts);
}
