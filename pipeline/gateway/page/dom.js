// Elements, and only text in them: nothing from outside is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

/** An element with attributes and children; a child that is a string becomes text. */
export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same for the elements of a picture. */
export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

/** An id from outside: isolated, whatever its direction, and shortened where it has no room. */
export function identity(id) {
  return element("bdi", { class: "id", title: id }, id);
}

/** Change a text only where it differs: a screen reader is told of no change that is none. */
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
