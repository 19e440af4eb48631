// The details of a task: its posterior, and the labels that stand.

import { confidence, isRated, prediction, probabilities, rating, status } from "./beliefs.js";
import { element, shortened } from "./dom.js";
import { facts, sharesTable } from "./facts.js";
import { className, count, moment, percent } from "./format.js";

const MOST_ANSWERS = 200;

/** The parts of the dialog; `open` is called with the worker that the user chooses. */
export function taskDetails(posterior, open) {
  const answers = posterior.answers ?? []; // null while the gateway reads the labels
  return [
    facts({
      Prediction: element("bdi", {}, prediction(posterior)),
      Confidence: percent(confidence(posterior)),
      ...(isRated(posterior) ? { Rating: element("bdi", {}, rating(posterior)) } : {}),
      Labels: count(posterior.labels),
      Status: status(posterior),
      Updated: moment(posterior.updated_at),
    }),
    sharesTable("Probability of each class", "Class", probabilities(posterior)),
    ...(answers.length ? [answersTable(answers.slice(0, MOST_ANSWERS), posterior, open)] : []),
    ...remark(posterior.answers),
  ];
}

function answersTable(answers, posterior, open) {
  const rows = answers.map(({ worker, label, accuracy }) => {
    const button = element("button", { type: "button", class: "link", "data-key": worker });
    button.append(shortened(worker));
    button.addEventListener("click", () => open(worker));
    const isAgainst = posterior.prediction && String(label) !== String(posterior.prediction);
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, button),
      element("td", { class: isAgainst ? "against" : "" }, element("bdi", {}, className(label))),
      element("td", { class: "count" }, typeof accuracy === "number" ? percent(accuracy) : "not known"),
    );
  });
  const head = element(
    "tr",
    {},
    element("th", { scope: "col" }, "Worker"),
    element("th", { scope: "col" }, "Label"),
    element("th", { scope: "col", class: "count" }, "Worker's accuracy"),
  );
  return element(
    "table",
    { class: "answers" },
    element("caption", {}, "Labels that stand"),
    element("thead", {}, head),
    element("tbody", {}, ...rows),
  );
}

function remark(answers) {
  const say = (text) => [element("p", { class: "reading" }, text)];
  if (answers === null) return say("The gateway is still reading the labels.");
  if (!answers.length) return say("No label stands.");
  if (answers.length <= MOST_ANSWERS) return [];
  return say(`The first ${MOST_ANSWERS} of ${count(answers.length)} labels.`);
}
