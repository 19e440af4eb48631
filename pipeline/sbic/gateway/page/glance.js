// The figures at the top.

import { byId, say, show } from "./dom.js";
import { className, count, decimal, duration, milliseconds, money, percent, upcoming } from "./format.js";

const LEAST_DEPENDENCE = 0.005;
const MOST_SHARES = 8;

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
  say(byId("wrong-believed"), tasks.known ? believed(status.honesty) : "");
  byId("wrong-believed").dataset.state = status.honesty.is_contradicted ? "warn" : "";
  say(byId("votes"), worth(status.honesty));
  showShares(status.prevalence);
  showBudget(status);
  showMoney(status.money);
  showWarnings(status.warnings);
}

/** What threatens labels: that they have expired, for example. */
export function showWarnings(warnings) {
  show(byId("warnings"), warnings.length > 0);
  say(byId("warnings"), warnings.join("; "));
}

export function showLatency(latency) {
  const isKnown = typeof latency?.median_ms === "number";
  say(byId("median"), isKnown ? milliseconds(latency.median_ms) : "–");
  const high = isKnown ? `${milliseconds(latency.p99_ms)} at the 99th percentile` : "no label in the last ten minutes";
  say(byId("p99"), high);
}

/** How far the expected number of wrong predictions can be believed, and what would help. */
export function believed(honesty) {
  const { gold, interval, gold_to_halve: more, wrong_on_gold: wrong, expected_wrong_on_gold: expected } = honesty;
  if (!gold) return "estimated from labels alone: no gold task checks it";
  const by = `${honesty.is_calibrated ? "calibrated" : "checked"} by ${count(gold)} gold`;
  const [low, high] = interval?.map(percent) ?? [];
  const range = interval ? `${low} to ${high}, ${by}; ${count(more)} more would halve that` : `${by}; more would say how far off it may be`;
  if (!honesty.is_contradicted) return range;
  return `${range}. Gold contradicts labels: they expected ${decimal(expected)} of ${count(gold)} wrong, not ${count(wrong)}`;
}

/** What the labels of a task are worth, under settled. */
function worth({ effective_votes: votes, dependence }) {
  if (votes === null) return "";
  const most = dependence >= LEAST_DEPENDENCE ? `, never more than ${decimal(1 / dependence)}` : "";
  return `${decimal(votes)} independent votes a task${most}`;
}

function showShares(prevalence) {
  const shares = Object.entries(prevalence ?? {}).sort(([, one], [, other]) => other.share - one.share);
  const each = shares.slice(0, MOST_SHARES).map(([name, { share, interval }]) => {
    const range = interval ? ` (${interval.map(percent).join(" to ")})` : "";
    return `${className(name)} ${percent(share)}${range}`;
  });
  if (shares.length > MOST_SHARES) each.push(`and ${shares.length - MOST_SHARES} more`);
  const by = shares.length && shares[0][1].interval ? "with 90 % intervals by gold" : "by labels alone";
  show(byId("shares"), shares.length > 0);
  say(byId("shares"), `Share of each class, ${by}: ${each.join(", ")}.`);
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

/** What labels cost, once any has a price. */
function showMoney({ spent, budget }) {
  show(byId("money"), spent > 0 || budget !== null);
  say(byId("money"), `${money(spent)}${budget === null ? "" : ` of ${money(budget)}`} spent in money`);
}

function ending({ left, seconds }, at) {
  if (!left) return ": spent";
  if (seconds === null) return "; nothing is spending it";
  return `, for ${duration(seconds)}: until ${upcoming(at + 1000 * seconds)}`;
}
