// Follows the events of the gateway; reports a lost connection, and reconnects.

import { Silence, TokenWanted } from "./api.js";

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 4000;

/**
 * Follow the events of a project until the signal `ending` aborts.
 *
 * `connected` is awaited at every new connection, `heard` gets each event, `lost` gets the time of
 * the loss and its reason, and `askToken` is awaited when the gateway requires a token.
 */
export async function follow(api, ending, { connected, heard, lost, askToken }) {
  let since = null;
  let delay = FIRST_DELAY_MS;
  while (!ending.aborted) {
    let why = "the connection was closed";
    try {
      await connected();
      for await (const event of api.events(ending)) {
        if (ending.aborted) return;
        since = null;
        delay = FIRST_DELAY_MS;
        heard(event);
      }
    } catch (error) {
      if (error instanceof Silence) continue;
      if (error instanceof TokenWanted) {
        await askToken(error.message);
        continue;
      }
      why = error instanceof TypeError ? "the gateway does not answer" : error.message;
    }
    if (ending.aborted) return;
    since ??= Date.now();
    lost(since, why);
    await new Promise((resolve) => setTimeout(resolve, delay));
    delay = Math.min(2 * delay, LONGEST_DELAY_MS);
  }
}
