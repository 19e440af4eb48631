// A table of which the page holds 10 rows at a time, however many there are.

import { element, say, show } from "./dom.js";
import { replaceKeepingFocus } from "./focus.js";

const LIMIT = 10;
const HOLD_MS = 3000; // rows keep their places under a pointer that moves

/** The rows of one section: their order, their page, and what a click opens. */
export class Listing {
  #section;
  #path;
  #row;
  #api = null;
  #cursors = [null]; // of the pages up to this one
  #next = null;
  #heldUntil = 0;
  #order;
  #body;
  #page = element("span", {});
  #previousButton = element("button", { type: "button" }, "Previous");
  #nextButton = element("button", { type: "button" }, "Next");

  /** `path` is asked for records and names them in its answer; `row` makes a row of one. */
  constructor(section, path, row) {
    this.#section = section;
    this.#path = path;
    this.#row = row;
    this.#order = section.querySelector(".order");
    this.#body = section.querySelector("tbody");
    section.querySelector(".pager").append(this.#previousButton, this.#page, this.#nextButton);
    this.#order.addEventListener("change", () => this.#go([null]));
    this.#previousButton.addEventListener("click", () => {
      if (this.#cursors.length > 1) this.#go(this.#cursors.slice(0, -1));
    });
    this.#nextButton.addEventListener("click", () => {
      if (this.#next !== null) this.#go([...this.#cursors, this.#next]);
    });
    this.#body.addEventListener("pointermove", () => {
      this.#heldUntil = performance.now() + HOLD_MS;
    });
  }

  /** Show another project, from its first page on. */
  use(api) {
    this.#api = api;
    this.#cursors = [null];
    this.#body.replaceChildren();
  }

  /** Ask for the page again, unless someone is about to click in it. */
  async refresh() {
    if (performance.now() < this.#heldUntil) return;
    await this.#load();
  }

  async #go(cursors) {
    this.#cursors = cursors;
    this.#heldUntil = 0;
    await this.#load().catch(() => {}); // the next refresh tries again
  }

  async #load() {
    const api = this.#api;
    const cursors = this.#cursors;
    const order = this.#order.value;
    const parameters = { order, limit: LIMIT };
    if (cursors.at(-1) !== null) parameters.after = cursors.at(-1);
    const answer = await api.get(this.#path, { parameters });
    const isOld = api !== this.#api || cursors !== this.#cursors || order !== this.#order.value;
    if (!isOld) this.#show(answer[this.#path], answer.next ?? null);
  }

  #show(records, next) {
    if (!records.length && this.#cursors.length > 1) {
      this.#go([null]); // the page is no longer there
      return;
    }
    this.#next = next;
    replaceKeepingFocus(this.#body, ...records.map(this.#row));
    show(this.#section.querySelector(".empty"), !records.length);
    show(this.#section.querySelector("table"), records.length > 0);
    show(this.#section.querySelector(".pager"), this.#cursors.length > 1 || next !== null);
    say(this.#page, `Page ${this.#cursors.length}`);
    this.#previousButton.setAttribute("aria-disabled", String(this.#cursors.length === 1));
    this.#nextButton.setAttribute("aria-disabled", String(next === null));
  }
}
