// Replaces rows without losing the keyboard focus.

/** Replace the children of a node; the focus stays on the element with the same `data-key`. */
export function replaceKeepingFocus(node, ...children) {
  const active = document.activeElement;
  const key = node.contains(active) ? active.dataset.key : undefined;
  const place = key === undefined ? -1 : keyed(node).indexOf(active);
  node.replaceChildren(...children);
  if (key === undefined) return;
  const now = keyed(node);
  const again = now.find((each) => each.dataset.key === key) ?? now[Math.min(place, now.length - 1)];
  again?.focus({ preventScroll: true });
}

const keyed = (node) => [...node.querySelectorAll("[data-key]")];
