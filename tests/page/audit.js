// What is not accessible on the page as it is now: a list of problems, in words.

const problems = [];

function parsed(colour) {
  const [red, green, blue, alpha = 1] = colour.match(/[\d.]+/g).map(Number);
  return { channels: [red, green, blue], alpha };
}

function background(node) {
  for (let each = node; each; each = each.parentElement) {
    const { channels, alpha } = parsed(getComputedStyle(each).backgroundColor);
    if (alpha === 1) return channels;
    if (alpha > 0) throw new Error("a background that is seen through is not computed here");
  }
  return [255, 255, 255];
}

function luminance(channels) {
  const [red, green, blue] = channels
    .map((channel) => channel / 255)
    .map((share) => (share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one, other) {
  const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}

const isSeen = (node) => node.checkVisibility({ opacityProperty: true, visibilityProperty: true });
const dialog = document.querySelector("dialog[open]");
const root = dialog ?? document.body;

const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
let checked = 0;
while (texts.nextNode()) {
  const text = texts.currentNode;
  const owner = text.parentElement;
  const isHidden = !text.data.trim() || !isSeen(owner) || owner.closest(".unseen, noscript, title, .skip");
  if (isHidden) continue;
  const style = getComputedStyle(owner);
  const ink = parsed(owner instanceof SVGElement ? style.fill : style.color).channels;
  const ratio = contrast(ink, background(owner));
  checked += 1;
  if (ratio < 4.5) problems.push(`contrast ${ratio.toFixed(2)} of "${text.data.trim().slice(0, 30)}"`);
}
if (checked < (dialog ? 3 : 30)) problems.push("hardly any text was found");

function nameOf(node) {
  const labels = [...(node.labels ?? [])].map((label) => label.textContent);
  const own = node.matches("select") ? "" : node.textContent; // options are no name
  return [node.getAttribute("aria-label"), own, ...labels].join("");
}
for (const control of root.querySelectorAll("button, select, input, a[href], [tabindex='0']")) {
  if (isSeen(control) && !nameOf(control).trim()) problems.push(`no name: ${control.outerHTML.slice(0, 80)}`);
}
for (const table of root.querySelectorAll("table")) {
  if (!table.caption?.textContent.trim()) problems.push("a table without a caption");
  if ([...table.querySelectorAll("th")].some((cell) => !cell.scope)) problems.push("a th without scope");
}
for (const picture of root.querySelectorAll("img:not([alt]), svg:not([aria-hidden]):not([aria-label])")) {
  problems.push(`a picture without words: ${picture.outerHTML.slice(0, 60)}`);
}
for (const part of [...root.querySelectorAll("[aria-labelledby]")].filter(isSeen)) {
  const title = document.getElementById(part.getAttribute("aria-labelledby"));
  if (!title?.textContent.trim()) problems.push(`nothing names ${part.id}`);
}
const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
if (new Set(ids).size !== ids.length) problems.push("an id is there twice");
if (!dialog) {
  for (const [landmark, wanted] of [["header", 1], ["main", 1], ["footer", 1], ["h1", 1]]) {
    const found = document.querySelectorAll(landmark).length;
    if (found !== wanted) problems.push(`${found} of ${landmark}`);
  }
  if (!document.documentElement.lang) problems.push("no language");
}
return problems;
