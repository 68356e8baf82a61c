/** The numbers of a generated enum by the short words that people write: `VOLUME_STATE_AVAILABLE` ↔ `AVAILABLE`. */
export interface EnumWords<Value extends number> {
  of(value: Value): string;
  /** Any case, dashes for underscores, with or without the prefix; undefined when there is no such word. */
  parse(text: string): Value | undefined;
  readonly words: readonly string[];
}

export const enumWords = <Value extends number>(
  values: Readonly<Record<string, Value>>,
  prefix: string,
): EnumWords<Value> => {
  const named = Object.entries(values).filter(([name]) => name.startsWith(prefix) && name !== `${prefix}UNSPECIFIED`);
  return {
    of: (value) => named.find(([, number]) => number === value)?.[0].slice(prefix.length) ?? "-",
    parse: (text) => {
      const wanted = text.toUpperCase().replaceAll("-", "_");
      return named.find(([name]) => name === wanted || name.slice(prefix.length) === wanted)?.[1];
    },
    words: named.map(([name]) => name.slice(prefix.length).toLowerCase().replaceAll("_", "-")),
  };
};
