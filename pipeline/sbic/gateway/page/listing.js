// A paged table: 10 rows at a time.

import { element, say, show } from "./dom.js";
import { replaceKeepingFocus } from "./focus.js";

const LIMIT = 10;
const HOLD_MS = 3000; // rows do not move while the pointer moves over them

/** The rows of one section, in the chosen order and page. */
export class Listing {
  #section;
  #path;
  #row;
  #api = null;
  #cursors = [null]; // the cursors of the pages up to this one
  #next = null;
  #heldUntil = 0;
  #order;
  #body;
  #page = element("span", {});
  #previousButton = element("button", { type: "button" }, "Previous");
  #nextButton = element("button", { type: "button" }, "Next");

  /** `path` is the path of the records and their field in the answer; `row` creates a row. */
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

  /** Switch to another project, at its first page. */
  use(api) {
    this.#api = api;
    this.#cursors = [null];
    this.#body.replaceChildren();
  }

  /** Request the page again, unless the user is about to click in it. */
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
      this.#go([null]); // the page no longer exists
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
