// The prediction and probabilities of a posterior, for classes -1 and 1 or with names.

import { className } from "./format.js";

/** The probability of each class, the most probable first. */
export function probabilities(posterior) {
  const byName = posterior.probabilities ?? {
    "1": posterior.probability,
    "-1": 1 - posterior.probability,
  };
  return Object.entries(byName).sort(([, one], [, other]) => other - one);
}

/** The largest of the probabilities. */
export function confidence(posterior) {
  if (typeof posterior.confidence === "number") return posterior.confidence;
  return Math.max(posterior.probability, 1 - posterior.probability);
}

export function prediction(posterior) {
  const said = posterior.prediction;
  if (said === null || said === 0) return posterior.labels ? "tie" : "none yet";
  return className(said);
}

export function status(posterior) {
  const gold = posterior.gold ? "gold, " : "";
  return gold + (posterior.status === "closed" ? `closed: ${posterior.reason}` : "open");
}
