// The project shown: the one in the address, or the gateway's default.

import { byId, element, say, show } from "./dom.js";
import { className } from "./format.js";

const PARAMETER = "project";
const MOST_CLASSES = 6;

/** The project shown, and the chooser if there are several. */
export class Projects {
  #known = [];
  #chosen = null;

  /** `chosen` is called when the user chooses another project. */
  constructor(chosen) {
    byId("project").addEventListener("change", () => {
      this.#choose(byId("project").value);
      chosen();
    });
  }

  get prefix() {
    return this.#chosen?.prefix ?? null;
  }

  /** The labels of the classes, as the API has them. */
  get labels() {
    return this.#chosen?.classes ?? [];
  }

  /** The number of classes of the project. */
  get classes() {
    return this.#classes.length || 2;
  }

  /** Update the list of projects. */
  learn({ projects, default: first }) {
    this.#known = projects;
    const wanted = new URLSearchParams(location.search).get(PARAMETER);
    const names = projects.map((project) => project.prefix);
    const options = names.map((name) => element("option", { value: name }, name));
    byId("project").replaceChildren(...options);
    show(byId("chooser"), names.length > 1);
    show(byId("project-name"), names.length === 1);
    const isUnknown = wanted !== null && !names.includes(wanted);
    say(byId("no-project"), isUnknown ? `This gateway has no project ${wanted}: this is ${first}.` : "");
    show(byId("no-project"), isUnknown);
    this.#show(names.includes(wanted) ? wanted : first);
  }

  get #classes() {
    return (this.#chosen?.classes ?? []).map(String);
  }

  #facts() {
    if (!this.#classes.length) return ""; // the gateway has not read the project yet
    const few = this.#classes.slice(0, MOST_CLASSES).map(className).join(", ");
    const more = this.#classes.length - MOST_CLASSES;
    return `${this.#chosen.algorithm} · classes ${few}${more > 0 ? ` and ${more} more` : ""}`;
  }

  #choose(prefix) {
    const address = new URL(location.href);
    address.searchParams.set(PARAMETER, prefix);
    history.replaceState(null, "", address);
    show(byId("no-project"), false);
    this.#show(prefix);
  }

  #show(prefix) {
    this.#chosen = this.#known.find((project) => project.prefix === prefix) ?? this.#known[0];
    byId("project").value = this.prefix;
    say(byId("project-name"), this.prefix);
    say(byId("facts"), this.#facts());
    document.title = `${this.prefix} · sbic`;
  }
}
