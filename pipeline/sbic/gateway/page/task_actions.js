// What an owner can do with a task in its dialog; each is asked again before it is sent.

import { byId, element, say, show } from "./dom.js";
import { className } from "./format.js";

/** The buttons of the dialog; `show` gets the posterior of the task, or null for a worker. */
export class TaskActions {
  #api = null;
  #posterior = null;
  #classes = [];

  constructor() {
    byId("task-status").addEventListener("click", () => this.#changeStatus());
    byId("task-gold-set").addEventListener("click", () => this.#setGold());
  }

  use(api) {
    this.#api = api;
  }

  /** The classes of the project, for the choice of gold. */
  set classes(classes) {
    if (String(classes) === String(this.#classes)) return;
    this.#classes = classes;
    const options = classes.map((name, index) => element("option", { value: index }, className(name)));
    byId("task-gold").replaceChildren(element("option", { value: "" }, "none"), ...options);
  }

  show(posterior) {
    if (posterior?.task !== this.#posterior?.task) {
      byId("task-gold").value = "";
      say(byId("task-said"), "");
    }
    this.#posterior = posterior;
    show(byId("task-actions"), posterior !== null);
    say(byId("task-status"), posterior?.status === "closed" ? "Reopen" : "Close");
  }

  #changeStatus() {
    const { task, status } = this.#posterior;
    if (status === "closed") this.#send(`Reopen ${task}?`, { task, status: "open" });
    else this.#send(`Close ${task}? Nobody gets it any more.`, { task, status: "closed" });
  }

  #setGold() {
    const { task } = this.#posterior;
    const chosen = byId("task-gold").value;
    if (chosen === "") this.#send(`Let ${task} have no gold?`, { task, gold: null });
    else {
      const gold = this.#classes[Number(chosen)];
      this.#send(`Let ${className(gold)} be the true class of ${task}?`, { task, gold });
    }
  }

  async #send(question, record) {
    if (!confirm(question)) return;
    const answer = (text) => {
      if (this.#posterior?.task === record.task) say(byId("task-said"), text);
    };
    try {
      await this.#api.post("tasks", record);
      answer("Sent; shown here once an instance has taken it.");
    } catch (error) {
      answer(`Not sent: ${error.message}`);
    }
  }
}
