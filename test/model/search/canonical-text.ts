/** The text of a JSON value with its keys in order: equal values have equal texts. What is undefined is left out. */
export const canonicalText = (value: unknown): string => {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(",")}]`;
  const entries = Object.entries(value).filter(([, v]) => v !== undefined);
  entries.sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, v]) => `${JSON.stringify(key)}:${canonicalText(v)}`).join(",")}}`;
};
