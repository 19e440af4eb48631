// Creates elements from text only: data is never parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

/** An element with attributes and children; a child that is a string becomes text. */
export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same for SVG elements. */
export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

const graphemes = new Intl.Segmenter();
const TAIL = 6; // characters at the end of an id that are always shown

/** An id from the data: isolated from the text direction around it, and shortened to fit. */
export function identity(id) {
  return element("bdi", { class: "id", title: id }, id);
}

/** The same for tables, shortened in the middle: ids often differ at their ends only. */
export function shortened(id) {
  const parts = [...graphemes.segment(id)].map((each) => each.segment);
  if (parts.length <= 2 * TAIL) return identity(id);
  const head = element("span", { class: "head" }, parts.slice(0, -TAIL).join(""));
  return element("bdi", { class: "id", title: id }, head, parts.slice(-TAIL).join(""));
}

/** Set a text only if it differs, so that screen readers announce real changes only. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function show(node, isShown) {
  node.hidden = !isShown;
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}
