// What an owner can do with a worker in their dialog; each is asked again before it is sent.

import { byId, say, show } from "./dom.js";

/** The buttons of the dialog; `show` gets the record of the worker, or null for a task. */
export class WorkerActions {
  #api = null;
  #worker = null;

  constructor() {
    byId("worker-block").addEventListener("click", () => this.#send((id) => `Block ${id}? They get no more tasks.`, true));
    byId("worker-unblock").addEventListener("click", () =>
      this.#send((id) => `Unblock ${id}? They get tasks whatever the rule says.`, false),
    );
    byId("worker-by-rule").addEventListener("click", () =>
      this.#send((id) => `Let the rule decide whether ${id} gets tasks?`, null),
    );
  }

  use(api) {
    this.#api = api;
  }

  show(worker) {
    if (worker?.worker !== this.#worker?.worker) say(byId("worker-said"), "");
    this.#worker = worker;
    show(byId("worker-actions"), worker !== null);
    const blocked = worker?.blocked ?? null;
    show(byId("worker-block"), blocked !== true);
    show(byId("worker-unblock"), blocked !== false);
    show(byId("worker-by-rule"), blocked !== null);
  }

  async #send(question, blocked) {
    // a record says everything: what is not asked here stays as it is
    const { worker, name = null, group = null, tier = null, price = null } = this.#worker;
    if (!confirm(question(worker))) return;
    const answer = (text) => {
      if (this.#worker?.worker === worker) say(byId("worker-said"), text);
    };
    try {
      await this.#api.post("workers", { worker, blocked, name, group, tier, price });
      answer("Sent; shown here once an instance has taken it.");
    } catch (error) {
      answer(`Not sent: ${error.message}`);
    }
  }
}
