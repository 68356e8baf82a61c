/** Changes of the product as it is loaded; no file is written. They are in place before the model, and with it the product, is imported. */
import { registerHooks } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";
import type { WorldName } from "./worlds.ts";

interface Place {
  readonly file: string;
  /** Stands once in the file. */
  readonly find: string;
  readonly put: string;
}

export interface ModelMutant extends Place {
  readonly name: string;
  /** Guards that alone stop the fault: without them it has to be found. */
  readonly also?: readonly Place[];
  readonly within: WorldName;
  /** So many states have its schedule, where the usual number is too small. */
  readonly mostStates?: number;
}

const root = path.resolve(import.meta.dirname, "../..");

export const placesOf = (mutant: ModelMutant): readonly Place[] => [mutant, ...(mutant.also ?? [])];

/** Returns the files that were not loaded; a place that is not found, or found twice, fails the load. */
export const plantFault = (mutant: ModelMutant): (() => readonly string[]) => {
  const waiting = new Set(placesOf(mutant).map(({ file }) => file));
  registerHooks({
    load(url, context, next) {
      const loaded = next(url, context);
      const file = url.startsWith("file:") ? path.relative(root, fileURLToPath(url)) : "";
      if (!waiting.delete(file)) return loaded;
      let source = String(loaded.source);
      for (const place of placesOf(mutant)) {
        if (place.file !== file) continue;
        const parts = source.split(place.find);
        if (parts.length !== 2)
          throw new Error(`the place of "${mutant.name}" is ${parts.length - 1} times in ${file}`);
        source = parts.join(place.put);
      }
      return { ...loaded, source };
    },
  });
  return () => [...waiting];
};
