// Requests to the gateway: JSON by GET and POST, and server-sent events.

import { serverSentEvents } from "./server_sent_events.js";

const TOKEN = "sbic-token";
const SILENCE_MS = 20_000; // an event arrives every second while Kafka answers

/** The gateway requires a token, or another one. */
export class TokenWanted extends Error {}

/** No event arrived for a long time: the next request may tell why. */
export class Silence extends Error {}

/** The gateway has no such task or worker. */
export class NotFound extends Error {}

export const hasToken = () => sessionStorage.getItem(TOKEN) !== null;
export const keepToken = (token) => sessionStorage.setItem(TOKEN, token);

/** A client of the gateway for one project; `project` is a function that returns its prefix. */
export class Api {
  #project;

  constructor(project) {
    this.#project = project;
  }

  /** The JSON answer to a GET; `names` become parts of the path, encoded. */
  async get(path, { names = [], parameters = {} } = {}) {
    const response = await this.#fetch(address(path, names, this.#project(), parameters));
    return response.json();
  }

  /** Post a record as JSON; the JSON answer. */
  async post(path, record) {
    const url = address(path, [], this.#project());
    const response = await this.#fetch(url, undefined, JSON.stringify(record));
    return response.json();
  }

  /** Yields events with a name and data until the connection closes or the signal aborts. */
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

  async #fetch(url, signal, body) {
    const token = sessionStorage.getItem(TOKEN);
    const headers = token === null ? {} : { Authorization: `Bearer ${token}` };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const method = body === undefined ? "GET" : "POST";
    const response = await fetch(url, { method, headers, body, signal, cache: "no-store" });
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
    throw new NotFound("The ids . and .. cannot be part of an address.");
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
