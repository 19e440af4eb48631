// Whether the figures are current: the connection may be lost, or Kafka may not answer the gateway.

import { byId, say, show } from "./dom.js";
import { clock } from "./format.js";

const STALE_MS = 10_000; // a new status arrives every second while Kafka answers the gateway
const LOOK_MS = 1000;

/** Shows the state of the connection; `now` is a monotonic clock in milliseconds. */
export class Freshness {
  #now;
  #at = null;
  #newsAt = 0;
  #lost = null;

  constructor(now = () => performance.now()) {
    this.#now = now;
    setInterval(() => this.look(), LOOK_MS);
  }

  /** A status of the time `at` has arrived. */
  news(at) {
    this.#lost = null;
    if (at !== this.#at) [this.#at, this.#newsAt] = [at, this.#now()];
    this.look();
  }

  /** The connection was lost at the time `since`. */
  lost(since, why) {
    this.#lost = { since, why };
    this.look();
  }

  /** Show the current state. */
  look() {
    if (this.#lost !== null) {
      const { since, why } = this.#lost;
      showTrouble(`Connection lost since ${clock(since)}`, why);
    } else if (this.#at !== null && this.#now() - this.#newsAt > STALE_MS) {
      showTrouble(`No update since ${clock(this.#at)}`, "Kafka does not answer the gateway");
    } else if (this.#at !== null) {
      showState("good", "Live");
      show(byId("problem"), false);
    }
  }
}

function showTrouble(what, why) {
  showState("warn", what);
  say(byId("problem"), `${what}: ${why}. The figures are from then; trying again.`);
  show(byId("problem"), true);
}

function showState(state, text) {
  const chip = byId("connection");
  chip.dataset.state = state;
  say(chip, text);
}
