// The details of a worker.

import { element, shortened } from "./dom.js";
import { facts, sharesTable } from "./facts.js";
import { className, count, decimal, moment, money, percent } from "./format.js";
import { accuracyText, blockedChip, habitsOf, isBlocked } from "./workers.js";

/** The parts of the dialog; `open` is called with the task that the user chooses. */
export function workerDetails(worker, blocking, open) {
  const accuracy = element("span", {}, accuracyText(worker));
  if (isBlocked(worker, blocking)) accuracy.append(" ", blockedChip());
  const known = {
    ...(worker.name ? { Name: element("bdi", {}, worker.name) } : {}),
    Accuracy: accuracy,
    Labels: count(worker.labels),
    "Expected right": decimal(worker.correct),
    "On gold": onGold(worker),
    "Last seen": moment(worker.last_seen),
  };
  if (typeof worker.blocked === "boolean") {
    known["By the owner"] = worker.blocked ? "blocked" : "unblocked, whatever the rule says";
  }
  if (worker.group) known.Group = element("bdi", {}, worker.group);
  if (worker.tier) known.Tier = count(worker.tier);
  if (typeof worker.price === "number") {
    known.Cost = `${money(worker.price * worker.labels)}, ${money(worker.price)} for a label`;
  }
  if (typeof worker.theta === "number") known["Knows the answer"] = percentSigned(worker.theta);
  if (worker.drifting) known["Answers otherwise since"] = moment(worker.drifting);
  if (worker.agrees_with) known["Errs together with"] = agreementsOf(worker);
  const habits = habitsOf(worker);
  const habitual = habits.length ? [sharesTable("Says when they do not know", "Class", habits)] : [];
  return [facts(known), ...habitual, ...answersOf(worker, open)];
}

function onGold({ gold, gold_right: right, contradicted }) {
  if (!gold) return "none";
  const said = `${count(right)} of ${count(gold)} right`;
  return contradicted ? `${said}: not what all labels say` : said;
}

function agreementsOf({ agrees_with: others }) {
  const list = element("ul", { class: "agreements" });
  for (const { worker, agreement, tasks, shared } of others) {
    const vote = shared > 0 ? `, ${percent(shared)} of a vote shared` : "";
    const how = ` agrees on ${percent(agreement)} of ${count(tasks)} contested tasks${vote}`;
    list.append(element("li", {}, shortened(worker), how));
  }
  return list;
}

function answersOf({ answers, labels }, open) {
  const say = (text) => element("p", { class: "reading" }, text);
  if (answers === null) return [say("The gateway is still reading the labels.")];
  if (!answers.length) return [say("No label stands.")];
  const more = labels > answers.length ? [say(`The last ${answers.length} of ${count(labels)} labels.`)] : [];
  return [answersTable(answers, open), ...more];
}

function answersTable(answers, open) {
  const rows = answers.map(({ task, label, prediction }) => {
    const button = element("button", { type: "button", class: "link", "data-key": task });
    button.append(shortened(task));
    button.addEventListener("click", () => open(task));
    const isAgainst = prediction && String(label) !== String(prediction);
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, button),
      element("td", { class: isAgainst ? "against" : "" }, element("bdi", {}, className(label))),
      element("td", {}, element("bdi", {}, prediction ? className(prediction) : "–")),
    );
  });
  const headings = ["Task", "Label", "Prediction"].map((name) => element("th", { scope: "col" }, name));
  return element(
    "table",
    { class: "answers" },
    element("caption", {}, "Labels that stand"),
    element("thead", {}, element("tr", {}, ...headings)),
    element("tbody", {}, ...rows),
  );
}

const percentSigned = (theta) => (theta < 0 ? `below chance (−${percent(-theta)})` : percent(theta));
