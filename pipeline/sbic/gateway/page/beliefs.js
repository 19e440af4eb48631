// The prediction and probabilities of a posterior, for classes -1 and 1 or with names.

import { className, fine } from "./format.js";

/** The probability of each class, the most probable first; of grades in their order. */
export function probabilities(posterior) {
  const byName = posterior.probabilities ?? {
    "1": posterior.probability,
    "-1": 1 - posterior.probability,
  };
  const shares = Object.entries(byName);
  return isRated(posterior) ? shares : shares.sort(([, one], [, other]) => other - one);
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

/** Whether the classes have an order. */
export const isRated = (posterior) => typeof posterior.mean === "number";

/** The expected grade, and the interval that has the grade with 80 %. */
export function rating({ mean, interval: [low, high] }) {
  const range = low === high ? `${className(low)}` : `${className(low)} to ${className(high)}`;
  return `${fine(mean)} in the mean; ${range} with 80 %`;
}

export function status(posterior) {
  const gold = posterior.gold ? "gold, " : "";
  return gold + (posterior.status === "closed" ? `closed: ${posterior.reason}` : "open");
}
