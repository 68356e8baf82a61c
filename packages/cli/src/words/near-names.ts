/** How many letters have to be put in, taken away, changed or swapped with their neighbour to make one word of the other. */
const distance = (a: string, b: string): number => {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, j) => j)];
  const at = (i: number, j: number): number => rows[i]?.[j] ?? 0;
  for (let i = 1; i <= a.length; i += 1) {
    rows[i] = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const changed = at(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const swapped = a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] && i > 1 && j > 1 ? at(i - 2, j - 2) + 1 : changed;
      rows[i]?.push(Math.min(at(i - 1, j) + 1, at(i, j - 1) + 1, changed, swapped));
    }
  }
  return at(a.length, b.length);
};

const most = 3;
const longest = 128;

/** The names that a person who wrote `word` may have meant, the nearest first; none is far from it. */
export const nearNames = (word: string, names: readonly string[]): readonly string[] => {
  if (word.length > longest) return [];
  const far = Math.max(1, Math.floor(word.length / 3));
  return [...new Set(names)]
    .filter((name) => name.length <= longest)
    .map((name) => ({ name, away: name.startsWith(word) || word.startsWith(`${name}s`) ? 0.5 : distance(word, name) }))
    .filter(({ away }) => away <= far)
    .sort((a, b) => a.away - b.away || (a.name < b.name ? -1 : 1))
    .slice(0, most)
    .map(({ name }) => name);
};
