import { SourceMap } from "node:module";

/** What deploy/package/lib/source-lines.mjs reads: for each line of a file of the bundle the number of its source, and the line there. */
export interface LineTable {
  readonly sources: readonly string[];
  readonly lines: readonly number[];
}

type Payload = ConstructorParameters<typeof SourceMap>[0];

const none = [-1, -1] as const;

export const lineTable = (code: string, map: string, nameOf: (source: string) => string): LineTable => {
  const sourceMap = new SourceMap(JSON.parse(map) as Payload);
  const numbers = new Map<string, number>();
  const lines = code.split("\n").flatMap((text, line) => {
    // By its first word: what stands before that belongs to the line above.
    const entry = sourceMap.findEntry(line, Math.max(text.search(/\S/), 0));
    // The banner, and what esbuild itself added, are of no source.
    if (!("originalSource" in entry) || entry.originalSource === undefined) return none;
    const source = nameOf(entry.originalSource);
    const number = numbers.get(source) ?? numbers.size;
    numbers.set(source, number);
    return [number, entry.originalLine + 1];
  });
  return { sources: [...numbers.keys()], lines };
};
