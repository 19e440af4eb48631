// The dialog with the details of one task or worker, refreshed while it is open.

import { NotFound } from "./api.js";
import { byId, element, identity, say } from "./dom.js";
import { replaceKeepingFocus } from "./focus.js";
import { TaskActions } from "./task_actions.js";
import { taskDetails } from "./task_details.js";
import { WorkerActions } from "./worker_actions.js";
import { workerDetails } from "./worker_details.js";

/** The dialog and its history: a task leads to its workers, and back. */
export class Details {
  #api = null;
  #path = [];
  #blocking = null;
  #actions = new TaskActions();
  #workerActions = new WorkerActions();
  #dialog = byId("details");
  #back = element("button", { type: "button", class: "link back" }, "Back");

  constructor() {
    byId("details-close").addEventListener("click", () => this.#dialog.close());
    byId("details-kind").after(this.#back);
    this.#back.addEventListener("click", () => {
      this.#path.pop();
      this.#turn();
    });
    this.#dialog.addEventListener("click", (event) => {
      if (event.target === this.#dialog) this.#dialog.close(); // the backdrop
    });
  }

  /** Switch to another project; the dialog closes. */
  use(api) {
    this.#api = api;
    this.#actions.use(api);
    this.#workerActions.use(api);
    this.#dialog.close();
  }

  set classes(classes) {
    this.#actions.classes = classes;
  }

  set blocking(rule) {
    this.#blocking = rule;
  }

  openTask(task) {
    this.#open({ kind: "Task", path: "tasks", id: task });
  }

  openWorker(worker) {
    this.#open({ kind: "Worker", path: "workers", id: worker });
  }

  /** Request again what is shown, if the dialog is open. */
  async refresh() {
    if (this.#dialog.open) await this.#load();
  }

  #open(shown) {
    if (!this.#dialog.open) {
      this.#path = [];
      this.#dialog.showModal();
    }
    this.#path.push(shown);
    this.#turn();
  }

  #turn() {
    const { kind, id } = this.#path.at(-1);
    say(byId("details-kind"), kind);
    byId("details-title").replaceChildren(identity(id));
    byId("details-body").replaceChildren(element("p", { class: "reading" }, "Loading"));
    this.#actions.show(null);
    this.#workerActions.show(null);
    this.#back.hidden = this.#path.length < 2;
    byId("details-title").focus();
    this.#load().catch((error) => this.#fail(error.message));
  }

  async #load() {
    const shown = this.#path.at(-1);
    try {
      const record = await this.#api.get(shown.path, { names: [shown.id] });
      if (shown !== this.#path.at(-1)) return;
      replaceKeepingFocus(byId("details-body"), ...this.#parts(shown, record));
      this.#actions.show(shown.path === "tasks" ? record : null);
      this.#workerActions.show(shown.path === "workers" ? record : null);
    } catch (error) {
      if (!(error instanceof NotFound)) throw error;
      this.#fail(error.message);
    }
  }

  #parts(shown, record) {
    if (shown.path === "workers") {
      return workerDetails(record, this.#blocking, (task) => this.openTask(task));
    }
    return taskDetails(record, (worker) => this.openWorker(worker));
  }

  #fail(problem) {
    byId("details-body").replaceChildren(element("p", { class: "problem" }, problem));
  }
}
