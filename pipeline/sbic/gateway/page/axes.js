// The ticks of an axis.

/** Round numbers from `from` to `to`: about `wanted` of them, at least `least` apart. */
export function ticks(from, to, wanted, least = 0) {
  const step = Math.max(least, niceStep((to - from) / wanted));
  const found = [];
  for (let n = Math.ceil(from / step); n * step <= to + step * 1e-9; n += 1) found.push(n * step);
  return found;
}

/** The smallest round number that is not below the value. */
export function ceiling(value, wanted) {
  if (!(value > 0)) return 1;
  const step = niceStep(value / wanted);
  return Math.ceil(value / step - 1e-9) * step;
}

function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough || 1));
  const factor = [1, 2, 5, 10].find((each) => each * power >= rough * (1 - 1e-9));
  return factor * power;
}
