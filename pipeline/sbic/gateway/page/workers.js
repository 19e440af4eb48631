// The rows of the table of workers, and whether a worker is blocked.

import { element, shortened } from "./dom.js";
import { className, count, moment, percent } from "./format.js";
import { interval, shares } from "./marks.js";

/** A row for a worker record; `open` is called with the worker when the user chooses it. */
export function workerRow(worker, blocking, open) {
  const button = element("button", { type: "button", class: "link", "data-key": worker.worker });
  button.append(shortened(worker.worker));
  const who = element("span", { class: "who" }, button);
  if (worker.name) who.append(element("bdi", { class: "aside" }, worker.name));
  if (isBlocked(worker, blocking)) who.append(blockedChip());
  if (worker.drifting) who.append(driftingChip(worker));
  if (worker.contradicted) who.append(contradictedChip(worker));
  const row = element(
    "tr",
    {},
    element("th", { scope: "row" }, who),
    element("td", { class: "accuracy" }, interval(worker.accuracy, worker.interval), accuracyText(worker)),
    element("td", { class: "habits wide" }, ...habitMarks(worker)),
    element("td", { class: "count" }, count(worker.labels)),
  );
  row.addEventListener("click", () => open(worker.worker));
  return row;
}

/** The blocking rule, or null: no tasks for workers `below` an accuracy `after` some labels. */
export function blockingOf(settings) {
  const below = Number(settings.block_below ?? Number.NaN);
  return Number.isNaN(below) ? null : { below, after: Number(settings.block_after ?? 0) };
}

/** Whether the owner blocks a worker or, where they say nothing, the rule does. */
export function isBlocked(worker, blocking) {
  if (typeof worker.blocked === "boolean") return worker.blocked; // the owner's word goes first
  return blocking !== null && worker.labels >= blocking.after && worker.accuracy < blocking.below;
}

export const driftingChip = ({ drifting }) =>
  element("span", { class: "chip warn", title: `answers otherwise since ${moment(drifting)}` }, "drifting");

export const contradictedChip = ({ gold, gold_right: right }) =>
  element("span", { class: "chip warn", title: `right on ${count(right)} of ${count(gold)} gold tasks` }, "gold differs");

export const blockedChip = () => element("span", { class: "chip warn" }, "blocked");

export function accuracyText(worker) {
  const [low, high] = worker.interval.map((end) => (100 * end).toFixed(0));
  return element(
    "span",
    { class: "numbers" },
    percent(worker.accuracy),
    element("span", { class: "aside" }, `${low}–${high}`),
  );
}

/** How often the worker gives each class when not knowing, the most frequent first. */
export function habitsOf(worker) {
  return Object.entries(worker.habits ?? {}).sort(([, one], [, other]) => other - one);
}

function habitMarks(worker) {
  const habits = habitsOf(worker);
  if (!habits.length) return ["–"]; // only settled estimates habits
  const [name, share] = habits[0];
  const said = element("bdi", { title: name }, className(name));
  return [shares(habits), element("span", { class: "most" }, said, ` ${(100 * share).toFixed(0)} %`)];
}
