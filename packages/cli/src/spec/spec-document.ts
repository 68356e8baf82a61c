/** A YAML or JSON document (JSON is YAML) with the place of every value, so that a mistake is told with its line. */
import { isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from "yaml";
import type { SpecViolation } from "./spec-violation.ts";

export interface SpecDocument {
  readonly root: Node | null;
  /** Where a value of the document stands. */
  placeOf(node: Node | null): { readonly line: number; readonly column: number };
  /** Where a field stands, by its path in the API; the nearest parent of a field that is not there. */
  placeOfField(field: string): { readonly line: number; readonly column: number };
  /** What is wrong with the text itself. */
  readonly mistakes: readonly SpecViolation[];
}

const childOf = (node: Node | null | undefined, key: string): Node | undefined => {
  if (isMap(node)) {
    const pair = node.items.find(({ key: name }) => isScalar(name) && String(name.value) === key);
    return (pair?.value ?? pair?.key) as Node | undefined;
  }
  return isSeq(node) ? (node.items[Number(key)] as Node | undefined) : undefined;
};

export const readSpecDocument = (text: string): SpecDocument => {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: true });
  const at = (offset: number) => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(1, line), column: Math.max(1, col) };
  };
  const placeOf = (node: Node | null) => at(node?.range?.[0] ?? 0);
  return {
    root: document.contents,
    placeOf,
    placeOfField(field) {
      let node: Node | null | undefined = document.contents;
      for (const [part] of field.matchAll(/[^.[\]]+/g)) {
        const child = childOf(node, part);
        if (child === undefined) break;
        node = child;
      }
      return placeOf(node ?? null);
    },
    mistakes: document.errors.map((error) => ({
      ...at(error.pos[0]),
      field: "",
      rule: error.message.split("\n")[0] ?? "cannot be read",
    })),
  };
};
