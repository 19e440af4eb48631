// The details of a worker.

import { element } from "./dom.js";
import { facts, sharesTable } from "./facts.js";
import { count, decimal, moment, percent } from "./format.js";
import { accuracyText, blockedChip, habitsOf, isBlocked } from "./workers.js";

/** The parts of the dialog. */
export function workerDetails(worker, blocking) {
  const accuracy = element("span", {}, accuracyText(worker));
  if (isBlocked(worker, blocking)) accuracy.append(" ", blockedChip());
  const known = {
    Accuracy: accuracy,
    Labels: count(worker.labels),
    "Expected right": decimal(worker.correct),
    "On gold": worker.gold ? `${count(worker.gold_right)} of ${count(worker.gold)} right` : "none",
    "Last seen": moment(worker.last_seen),
  };
  if (typeof worker.theta === "number") known["Knows the answer"] = percentSigned(worker.theta);
  const habits = habitsOf(worker);
  if (!habits.length) return [facts(known)];
  return [facts(known), sharesTable("Says when they do not know", "Class", habits)];
}

const percentSigned = (theta) => (theta < 0 ? `below chance (−${percent(-theta)})` : percent(theta));
