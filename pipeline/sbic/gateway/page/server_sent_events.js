// Parses a text/event-stream read by fetch: EventSource cannot send a token.

/** Yields events with a name and parsed data. */
export async function* serverSentEvents(body) {
  let event = { name: "message", lines: [] };
  for await (const line of linesOf(body)) {
    if (line === "") {
      if (event.lines.length) yield { name: event.name, data: JSON.parse(event.lines.join("\n")) };
      event = { name: "message", lines: [] };
    } else if (line.startsWith("event:")) {
      event.name = valueOf(line);
    } else if (line.startsWith("data:")) {
      event.lines.push(valueOf(line));
    }
  }
}

const valueOf = (line) => line.slice(line.indexOf(":") + 1).replace(/^ /, "");

async function* linesOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + value).split(/\r?\n/);
      rest = lines.pop();
      yield* lines;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
