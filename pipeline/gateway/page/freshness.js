// Whether the figures are of now: the connection may be lost, or Kafka away behind the gateway.

import { byId, say, show } from "./dom.js";
import { clock } from "./format.js";

const STALE_MS = 10_000; // there is a new status every second while Kafka answers the gateway
const LOOK_MS = 1000;

/** What the page says of the connection; `now` gives milliseconds that never go back. */
export class Freshness {
  #now;
  #at = null;
  #newsAt = 0;
  #lost = null;

  constructor(now = () => performance.now()) {
    this.#now = now;
    setInterval(() => this.look(), LOOK_MS);
  }

  /** There is a connection, and a status of the moment `at`. */
  news(at) {
    this.#lost = null;
    if (at !== this.#at) [this.#at, this.#newsAt] = [at, this.#now()];
    this.look();
  }

  /** There is no connection since a moment. */
  lost(since, why) {
    this.#lost = { since, why };
    this.look();
  }

  /** Show how it is now. */
  look() {
    if (this.#lost !== null) {
      const { since, why } = this.#lost;
      showTrouble(`Connection lost since ${clock(since)}`, why);
    } else if (this.#at !== null && this.#now() - this.#newsAt > STALE_MS) {
      showTrouble(`No news since ${clock(this.#at)}`, "Kafka does not answer the gateway");
    } else if (this.#at !== null) {
      showState("good", "Live");
      show(byId("problem"), false);
    }
  }
}

function showTrouble(what, why) {
  showState("warn", what);
  say(byId("problem"), `${what}: ${why}. The figures are those of then; trying again.`);
  show(byId("problem"), true);
}

function showState(state, text) {
  const chip = byId("connection");
  chip.dataset.state = state;
  say(chip, text);
}
