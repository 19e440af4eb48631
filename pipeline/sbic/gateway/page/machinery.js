// Instances, sinks, dead letters, and the settings in force.

import { byId, element, identity, say, show } from "./dom.js";
import { count, duration, ranges } from "./format.js";
import { listed } from "./glance.js";

const SILENT_SECONDS = 30; // a sink that runs commits every five seconds

export function showMachinery(status) {
  showInstances(status.instances);
  showSinks(status.sinks, status.at);
  showLetters(status.dead_letters);
  showSettings(status.settings);
}

function showInstances({ group_state: state, lag, members }) {
  const group = byId("group");
  say(group, state);
  group.dataset.state = state === "Stable" ? "good" : "warn";
  const rows = members.map((member) =>
    element(
      "tr",
      {},
      element(
        "th",
        { scope: "row" },
        identity(member.host),
        element("span", { class: "aside id", title: member.id }, member.id),
      ),
      element("td", {}, ranges(member.partitions)),
      element("td", { class: "count" }, count(member.lag)),
      element("td", { class: "state" }, stateOf(member, state)),
    ),
  );
  fill("instances", rows);
  const waiting = listed(lag);
  say(byId("lag"), waiting ? `Lag by topic: ${waiting}.` : "No topic has any lag.");
}

function stateOf(member, group) {
  if (group !== "Stable") return "joining";
  if (!member.partitions.length) return "standby";
  return member.lag ? "catching up" : "up to date";
}

function showSinks({ known, first }, now) {
  const rows = first.map((sink) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, identity(sink.name)),
      element("td", { class: "count" }, count(sink.lag)),
      element("td", { class: "state" }, stateOfSink(sink, now)),
    ),
  );
  const table = byId("sinks");
  table.tBodies[0].replaceChildren(...rows);
  show(table, rows.length > 0);
  show(byId("sinks-more"), known > rows.length);
  say(byId("sinks-more"), `And ${count(known - rows.length)} more sinks.`);
}

function stateOfSink({ lag, committed_at: at }, now) {
  const silent = at === null ? 0 : (now - at) / 1000;
  if (silent > SILENT_SECONDS) return `silent for ${duration(silent)}`;
  return lag ? "catching up" : "up to date";
}

function showLetters({ total, replayed, by_reason: byReason }) {
  say(byId("letters-total"), total ? count(total) : "");
  const reasons = Object.entries(byReason).filter(([, number]) => number);
  const rows = reasons
    .sort(([, one], [, other]) => other - one)
    .map(([reason, number]) =>
      element(
        "tr",
        {},
        element("th", { scope: "row" }, identity(reason)),
        element("td", { class: "count" }, count(number)),
      ),
    );
  fill("letters", rows);
  show(byId("replayed"), replayed > 0);
  say(byId("replayed"), `${count(replayed)} of them were replayed.`);
}

function showSettings(settings) {
  const shown = Object.entries(settings).filter(([, value]) => value !== null && value !== "");
  const text = JSON.stringify(shown);
  const list = byId("settings");
  if (list.dataset.shown === text) return;
  list.dataset.shown = text;
  list.replaceChildren(
    ...shown.map(([name, value]) =>
      element(
        "div",
        {},
        element("dt", {}, name.replaceAll("_", " ")),
        element("dd", {}, identity(String(value))),
      ),
    ),
  );
}

function fill(id, rows) {
  const table = byId(id);
  table.tBodies[0].replaceChildren(...rows);
  show(table, rows.length > 0);
  show(table.nextElementSibling, rows.length === 0);
}
