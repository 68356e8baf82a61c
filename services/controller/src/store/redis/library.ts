import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

/** Raised with every change of library.lua, so that controllers of two versions run side by side on one Redis. */
export const libraryVersion = 8;
export const libraryName = `holdfast_v${libraryVersion}`;

const named = (name: string): string => `${libraryName}_${name}`;

export const libraryFunctions = {
  commit: named("commit"),
  init: named("init"),
  begin: named("begin"),
  vet: named("vet"),
  read: named("read"),
  list: named("list"),
  placed: named("placed"),
  count: named("count"),
  identity: named("identity"),
} as const;

export interface Library {
  /** What FUNCTION LOAD takes. */
  readonly code: string;
  /** What the loaded library answers for itself; another digest under the same name is another library. */
  readonly digest: string;
}

export const readLibrary = (): Library => {
  const text = readFileSync(new URL("./library.lua", import.meta.url), "utf8");
  const digest = createHash("sha256").update(text).digest("hex").slice(0, 16);
  return { code: text.replace("@digest@", digest), digest };
};
