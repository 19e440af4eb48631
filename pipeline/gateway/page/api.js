// What the gateway is asked: JSON by GET, and its events as they come.

import { serverSentEvents } from "./server_sent_events.js";

const TOKEN = "sbic-token";
const SILENCE_MS = 20_000; // there is an event every second while Kafka is there

/** The gateway wants a token, or another one. */
export class TokenWanted extends Error {}

/** No event came for long: the gateway may say why when it is asked. */
export class Silence extends Error {}

/** The gateway has no such task or worker. */
export class NotFound extends Error {}

export const hasToken = () => sessionStorage.getItem(TOKEN) !== null;
export const keepToken = (token) => sessionStorage.setItem(TOKEN, token);

/** The gateway, asked about the project that `project` names. */
export class Api {
  #project;

  constructor(project) {
    this.#project = project;
  }

  /** The answer to a GET; `names` become parts of the path, whatever is in them. */
  async get(path, { names = [], parameters = {} } = {}) {
    const response = await this.#fetch(address(path, names, this.#project(), parameters));
    return response.json();
  }

  /** Events with a name and data; ends, or fails, with the connection or by the signal. */
  async *events(ending) {
    const silence = new AbortController();
    const signal = AbortSignal.any([ending, silence.signal]);
    let timer;
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(new Silence()), SILENCE_MS);
    };
    try {
      heard();
      const response = await this.#fetch(address("events", [], this.#project()), signal);
      for await (const event of serverSentEvents(response.body)) {
        heard();
        yield event;
      }
    } finally {
      clearTimeout(timer);
      silence.abort();
    }
  }

  async #fetch(url, signal) {
    const token = sessionStorage.getItem(TOKEN);
    const headers = token === null ? {} : { Authorization: `Bearer ${token}` };
    const response = await fetch(url, { headers, signal, cache: "no-store" });
    if (response.ok) return response;
    const problem = await problemOf(response);
    if (response.status === 401) throw new TokenWanted(problem);
    if (response.status === 404) throw new NotFound(problem);
    throw new Error(problem);
  }
}

function address(path, names, project, parameters = {}) {
  const query = new URLSearchParams(parameters);
  if (project) query.set("project", project);
  if (names.some((name) => name === "." || name === "..")) {
    throw new NotFound("A name of dots alone means something else in an address: it cannot be asked for.");
  }
  const whole = [path, ...names.map(encodeURIComponent)].join("/");
  return query.size ? `${whole}?${query}` : whole;
}

async function problemOf(response) {
  try {
    return String((await response.json()).error);
  } catch {
    return `The gateway answered with status ${response.status}`;
  }
}
