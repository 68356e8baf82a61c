/**
 * The parts of which states are made, as numbers: a state is a row of them, and the search compares rows and nothing else.
 *
 * P1 Parts that say the same have one number, whatever the order of their keys. P2 A part is never changed: many states share it.
 * P3 A word #7 in a text is a mark: marks are only compared, so that states whose marks stand in the same order are the same state.
 */
import { canonicalText } from "./canonical-text.ts";

/** Some names in the place of others. */
export type Names = ReadonlyMap<string, string>;

export interface Parts {
  idOf(part: object): number;
  partOf(id: number): object;
  size(): number;
  /** One bit for each mark in the part. */
  marksOf(id: number): number;
  /** The part with the marks of a whole state, one bit each, in the place of their ranks there. */
  ranked(id: number, marks: number): number;
  /** The part with other names; `names` is asked for by its place in the list that the parts were made with. */
  renamed(id: number, names: number): number;
}

const mark = /#(\d+)/g;
const mostMarks = 30;

const rankOf = (marks: number, at: number): number => {
  let below = marks & ((1 << at) - 1);
  let rank = 0;
  for (; below !== 0; below &= below - 1) rank += 1;
  return rank;
};

export const createParts = (renamings: readonly Names[]): Parts => {
  const texts: string[] = [];
  const parts: object[] = [];
  const marked: number[] = [];
  const byText = new Map<string, number>();
  const byPart = new WeakMap<object, number>();
  const rankings = new Map<number, number>();
  const renames = renamings.map((names) => ({
    names,
    words: new RegExp(`\\b(?:${[...names.keys()].join("|")})\\b`, "g"),
    known: new Map<number, number>(),
  }));

  const ofText = (text: string): number => {
    const known = byText.get(text);
    if (known !== undefined) return known; // P1
    const id = texts.length;
    const part: object = JSON.parse(text);
    let bits = 0;
    for (const [, at = ""] of text.matchAll(mark)) {
      if (Number(at) >= mostMarks) throw new Error(`a state has more than ${mostMarks} marks: ${text}`);
      bits |= 1 << Number(at);
    }
    texts.push(text);
    parts.push(part);
    marked.push(bits);
    byText.set(text, id);
    byPart.set(part, id);
    return id;
  };

  const textAt = (id: number): string => texts[id] ?? "";

  return {
    idOf(part) {
      const known = byPart.get(part);
      if (known !== undefined) return known;
      const id = ofText(canonicalText(part));
      byPart.set(part, id); // P2
      return id;
    },
    partOf(id) {
      const part = parts[id];
      if (part === undefined) throw new Error(`no part has the number ${id}`);
      return part;
    },
    size: () => parts.length,
    marksOf: (id) => marked[id] ?? 0,
    ranked(id, marks) {
      const key = id * 2 ** mostMarks + marks;
      const known = rankings.get(key);
      if (known !== undefined) return known;
      const found = ofText(textAt(id).replace(mark, (_, at) => `#${rankOf(marks, Number(at))}`)); // P3
      rankings.set(key, found);
      return found;
    },
    renamed(id, at) {
      const renaming = renames[at];
      if (renaming === undefined) throw new Error(`no renaming has the number ${at}`);
      const known = renaming.known.get(id);
      if (known !== undefined) return known;
      const text = textAt(id).replace(renaming.words, (name) => renaming.names.get(name) ?? name);
      const found = ofText(canonicalText(JSON.parse(text)));
      renaming.known.set(id, found);
      return found;
    },
  };
};
