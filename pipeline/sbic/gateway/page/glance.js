// The figures at the top.

import { byId, say, show } from "./dom.js";
import { count, decimal, duration, milliseconds, percent, upcoming } from "./format.js";

export function showGlance(status) {
  const { labels, tasks } = status;
  say(byId("labels"), count(labels.counted));
  say(byId("rate"), decimal(labels.per_second));
  say(byId("in-topic"), `${count(labels.in_topic)} in the topic`);
  const closed = Object.values(tasks.closed).reduce((sum, number) => sum + number, 0);
  say(byId("open"), count(tasks.open));
  say(byId("closed"), count(closed));
  say(byId("reasons"), closed ? `: ${listed(tasks.closed)}` : "");
  say(byId("of-note"), listed({ gold: tasks.gold, "without labels": tasks.without_labels }));
  say(byId("wrong"), decimal(status.expected_wrong));
  const share = tasks.known ? status.expected_wrong / tasks.known : 0;
  const shares = `${percent(share)} of ${count(tasks.known)} predictions`;
  say(byId("wrong-share"), tasks.known ? shares : "no task yet");
  showBudget(status);
}

export function showLatency(latency) {
  const isKnown = typeof latency?.median_ms === "number";
  say(byId("median"), isKnown ? milliseconds(latency.median_ms) : "–");
  const high = isKnown ? `${milliseconds(latency.p99_ms)} at the 99th percentile` : "no label in the last ten minutes";
  say(byId("p99"), high);
}

/** The counts that are not 0, in words. */
export function listed(counts) {
  const shown = Object.entries(counts).filter(([, number]) => number);
  return shown.map(([name, number]) => `${name} ${count(number)}`).join(", ");
}

function showBudget({ budget, at }) {
  const meter = byId("budget-meter");
  show(meter, budget !== null);
  if (budget === null) {
    say(byId("budget-left"), "none");
    say(byId("budget-end"), "labels are not limited");
    return;
  }
  say(byId("budget-left"), count(budget.left));
  meter.firstElementChild.style.width = `${(100 * (budget.labels - budget.left)) / budget.labels}%`;
  say(byId("budget-end"), `of ${count(budget.labels)} left${ending(budget, at)}`);
}

function ending({ left, seconds }, at) {
  if (!left) return ": spent";
  if (seconds === null) return "; nothing is spending it";
  return `, for ${duration(seconds)}: until ${upcoming(at + 1000 * seconds)}`;
}
