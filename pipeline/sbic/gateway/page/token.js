// Asks for the token that the gateway requires; only this tab stores it.

import { hasToken, keepToken } from "./api.js";
import { byId, say } from "./dom.js";

let asking = null;

/** Show the dialog, once for all callers, and resolve when there is an answer. */
export function askToken() {
  asking ??= ask().finally(() => (asking = null));
  return asking;
}

async function ask() {
  const dialog = byId("token-dialog");
  const field = byId("token");
  if (hasToken()) say(byId("token-why"), "This gateway does not accept that token. Try another.");
  field.value = "";
  while (field.value.trim() === "") {
    dialog.showModal();
    await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  }
  keepToken(field.value.trim());
  field.value = "";
}
