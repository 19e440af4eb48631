// Numbers, times and names as readable text.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1, minimumFractionDigits: 1 });
const exact = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (number) => whole.format(number);
export const decimal = (number) => (number >= 1000 ? whole : tenths).format(number);

/** An amount of money, in whatever money prices are in: two digits or more, all that matter. */
export const money = (amount) =>
  amount !== 0 && Math.abs(amount) < 1 ? `${Number(amount.toPrecision(2))}` : exact.format(amount);
export const compact = (number) => (Math.abs(number) < 10_000 ? exact : short).format(number);

/** A share in percent; one close to 0 or 1 is not rounded to 0 or 100 %. */
export function percent(share) {
  if (share > 0.999 && share < 1) return ">99.9 %";
  if (share > 0 && share < 0.001) return "<0.1 %";
  return `${tenths.format(100 * share)} %`;
}

export function milliseconds(time) {
  if (time >= 10_000) return duration(time / 1000);
  if (time >= 1000) return `${(time / 1000).toFixed(1)} s`;
  return `${time < 10 ? tenths.format(time) : whole.format(time)} ms`;
}

/** An approximate duration, in the largest unit of which there are at least two. */
export function duration(seconds) {
  const units = [["days", 86_400], ["hours", 3_600], ["minutes", 60]];
  const [unit, size] = units.find((each) => seconds >= 2 * each[1]) ?? ["seconds", 1];
  return `${whole.format(seconds / size)} ${unit}`;
}

export const clock = (at) => new Date(at).toLocaleTimeString("en-GB");
export const moment = (at) => `${new Date(at).toLocaleDateString("en-CA")} ${clock(at)}`;

/** A time in the future, with its date unless that is today. */
export function upcoming(at) {
  const isToday = new Date(at).toDateString() === new Date().toDateString();
  return isToday ? clock(at).slice(0, 5) : moment(at).slice(0, 16);
}

/** Ascending numbers as ranges: 0–2, 5, 7–8. */
export function ranges(numbers) {
  const runs = [];
  for (const number of numbers) {
    const last = runs.at(-1);
    if (last && number === last[1] + 1) last[1] = number;
    else runs.push([number, number]);
  }
  return runs.map(([from, to]) => (from === to ? `${from}` : `${from}–${to}`)).join(", ") || "none";
}

/** The name of a class, with a true minus sign for -1. */
export const className = (name) => (String(name) === "-1" ? "−1" : String(name));
