/** The two largest units: `45s`, `3m12s`, `5h`, `12d4h`. */
export const durationWords = (ms: number): string => {
  const seconds = Math.max(0, Math.floor(ms / 1_000));
  const parts: readonly (readonly [number, string])[] = [
    [Math.floor(seconds / 86_400), "d"],
    [Math.floor(seconds / 3_600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "m"],
    [seconds % 60, "s"],
  ];
  const first = parts.findIndex(([count]) => count > 0);
  if (first === -1) return "0s";
  return parts
    .slice(first, first + 2)
    .filter(([count], i) => i === 0 || count > 0)
    .map(([count, unit]) => `${count}${unit}`)
    .join("");
};
