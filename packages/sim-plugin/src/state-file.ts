import { readFileSync, renameSync, writeFileSync } from "node:fs";
import type { BackendSnapshot } from "./backend/backend.ts";
import { decode, encode } from "./backend/json.ts";

/** Written beside and renamed over: a kill at any moment leaves the old state or the new one, never half of one. */
export const saveState = (file: string, snapshot: BackendSnapshot): void => {
  const half = `${file}.new`;
  writeFileSync(half, encode(snapshot));
  renameSync(half, file);
};

export const loadState = (file: string): BackendSnapshot | undefined => {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  return decode(text) as BackendSnapshot;
};
