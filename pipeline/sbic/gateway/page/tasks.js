// The rows of the table of tasks.

import { confidence, isRated, prediction, rating, status } from "./beliefs.js";
import { element, shortened } from "./dom.js";
import { count, percent } from "./format.js";
import { bar } from "./marks.js";

/** A row for a posterior; `open` is called with the task when the user chooses it. */
export function taskRow(posterior, open) {
  const button = element("button", { type: "button", class: "link", "data-key": posterior.task });
  button.append(shortened(posterior.task));
  const sure = confidence(posterior);
  const says = { class: "says", ...(isRated(posterior) ? { title: rating(posterior) } : {}) };
  const row = element(
    "tr",
    {},
    element("th", { scope: "row" }, button),
    element("td", says, element("bdi", {}, prediction(posterior))),
    element("td", { class: "sure" }, bar(sure), percent(sure)),
    element("td", { class: "count" }, count(posterior.labels)),
    element("td", { class: "state wide" }, status(posterior)),
  );
  row.addEventListener("click", () => open(posterior.task));
  return row;
}
