// The rules of the project, which its owner can change; each change is asked again before it is sent.

import { byId, element, say } from "./dom.js";

export class Rules {
  #api = null;
  #rules = {};

  constructor() {
    byId("rule-set").addEventListener("click", () => this.#change());
    byId("rule").addEventListener("change", () => this.#showValue());
  }

  /** Show the rules of the project of this client. */
  async use(api) {
    this.#api = api;
    const { rules } = await api.get("rules");
    if (api !== this.#api) return; // another project was chosen meanwhile
    const options = Object.keys(rules).map((name) => element("option", { value: name }, name));
    byId("rule").replaceChildren(...options);
    this.#learn(rules);
  }

  #learn(rules) {
    this.#rules = rules;
    this.#showValue();
  }

  #showValue() {
    byId("rule-value").value = this.#rules[byId("rule").value] ?? "";
    say(byId("rule-said"), "");
  }

  async #change() {
    const [name, text] = [byId("rule").value, byId("rule-value").value.trim()];
    const value = valueOf(text);
    const question = value === null ? `Switch ${name} off?` : `Let ${name} be ${text}?`;
    if (!confirm(`${question} All instances follow at once.`)) return;
    const api = this.#api;
    try {
      const { rules } = await api.post("rules", { [name]: value });
      if (api !== this.#api) return;
      this.#learn(rules);
      say(byId("rule-said"), "Changed.");
    } catch (error) {
      say(byId("rule-said"), `Not changed: ${error.message}`);
    }
  }
}

function valueOf(text) {
  if (text === "") return null;
  if (text === "true" || text === "false") return text === "true";
  return Number.isNaN(Number(text)) ? text : Number(text);
}
