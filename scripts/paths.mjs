// Where things are, so that every script works from any directory.
import path from "node:path";
import { fileURLToPath } from "node:url";

export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");
export const modules = path.join(root, "node_modules");
export const bin = path.join(modules, ".bin");
/** Ours to fill and to throw away; ignored by git. */
export const cache = path.join(root, ".cache");
/** Programs put there by system-needs.mjs. */
export const cacheBin = path.join(cache, "bin");
