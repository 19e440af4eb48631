// Asks for the token that the gateway wants; the tab keeps it, and nothing else does.

import { hasToken, keepToken } from "./api.js";
import { byId, say } from "./dom.js";

let asking = null;

/** Ask once, whoever wants it, and go on when there is an answer. */
export function askToken() {
  asking ??= ask().finally(() => (asking = null));
  return asking;
}

async function ask() {
  const dialog = byId("token-dialog");
  const field = byId("token");
  if (hasToken()) say(byId("token-why"), "That token is not one of this gateway's. Try another.");
  field.value = "";
  while (field.value.trim() === "") {
    dialog.showModal();
    await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  }
  keepToken(field.value.trim());
  field.value = "";
}
