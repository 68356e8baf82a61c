/** The table of rights of docs/security.md: written by hand, one row for each RPC. */
import { readFile } from "node:fs/promises";
import path from "node:path";
import type { CellOutcome } from "./ask-cell.ts";
import { type Column, columns, type Subject, subjects } from "./callers.ts";

export type Right = "yes" | "own" | "other" | "no";

/** About which subjects the call reaches its handler. */
const reaches: Readonly<Record<Right, readonly Subject[]>> = {
  yes: subjects,
  own: ["own"],
  other: ["other"],
  no: [],
};

const unknownCallers: readonly Column[] = ["no certificate", "foreign CA"];

export const expectedOf = (right: Right, caller: Column, subject: Subject): CellOutcome => {
  if (reaches[right].includes(subject)) return "reached";
  return unknownCallers.includes(caller) ? "unknown caller" : "denied";
};

const isRight = (word: string): word is Right => Object.hasOwn(reaches, word);

const rowPattern = /^\| `([\w.]+\/\w+)` \| (.*) \|$/;

/** By RPC and column. */
export const readRights = async (): Promise<ReadonlyMap<string, Readonly<Record<Column, Right>>>> => {
  const page = await readFile(path.resolve(import.meta.dirname, "../../docs/security.md"), "utf8");
  const rights = new Map<string, Readonly<Record<Column, Right>>>();
  for (const line of page.split("\n")) {
    const [, rpc, cells = ""] = rowPattern.exec(line) ?? [];
    if (rpc === undefined) continue;
    const words = cells.split("|").map((word) => word.trim());
    if (words.length !== columns.length || !words.every(isRight)) throw new Error(`no row of rights: ${line}`);
    if (rights.has(rpc)) throw new Error(`${rpc} has two rows of rights`);
    rights.set(rpc, Object.fromEntries(columns.map((column, at) => [column, words[at]])) as Record<Column, Right>);
  }
  return rights;
};
