const firstWidth = 34;
const width = 12;

export const number = (value: number, digits = 2): string => value.toFixed(digits);
/** A line of a table. */
export const row = (first: string, ...cells: readonly (string | number)[]): string =>
  `  ${first.padEnd(firstWidth)}${cells.map((cell) => (typeof cell === "number" ? number(cell) : cell).padStart(width)).join("")}`;
