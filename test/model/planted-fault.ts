/** A change of one product file as it is loaded; no file is written. It is in place before the model, and with it the product, is imported. */
import { registerHooks } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";
import type { ModelMutant } from "./mutants.ts";

const root = path.resolve(import.meta.dirname, "../..");

/** Returns whether the change was made; a place that is not found, or found twice, fails the load. */
export const plantFault = ({ name, file, find, put }: ModelMutant): (() => boolean) => {
  const target = path.join(root, file);
  let planted = false;
  registerHooks({
    load(url, context, next) {
      const loaded = next(url, context);
      if (!url.startsWith("file:") || fileURLToPath(url) !== target) return loaded;
      const parts = String(loaded.source).split(find);
      if (parts.length !== 2) throw new Error(`the place of "${name}" is ${parts.length - 1} times in ${file}`);
      planted = true;
      return { ...loaded, source: parts.join(put) };
    },
  });
  return () => planted;
};
