// Lists of names with values, and tables of shares with bars.

import { element } from "./dom.js";
import { className, percent } from "./format.js";
import { bar } from "./marks.js";

const MOST_SHARES = 12;

export function facts(values) {
  const pairs = Object.entries(values).map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value)),
  );
  return element("dl", { class: "facts-list" }, ...pairs);
}

/** A table of shares, the largest ones first. */
export function sharesTable(title, heading, pairs) {
  const rows = pairs.slice(0, MOST_SHARES).map(([name, share]) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, element("bdi", { class: "id", title: name }, className(name))),
      element("td", { class: "sure" }, bar(share), percent(share)),
    ),
  );
  const rest = pairs.length - rows.length;
  const caption = rest > 0 ? `${title}: the first ${rows.length} of ${pairs.length}` : title;
  const head = element(
    "tr",
    {},
    element("th", { scope: "col" }, heading),
    element("th", { scope: "col", class: "sure" }, "Share"),
  );
  return element(
    "table",
    {},
    element("caption", {}, caption),
    element("thead", {}, head),
    element("tbody", {}, ...rows),
  );
}
