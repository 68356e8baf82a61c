/**
 * A fault planted into the source as it is loaded, so that a test can be shown to catch it; no file is written. HOLDFAST_MUTANT names it.
 *
 * A fault whose place is not found, or found twice, fails the run: it would plant nothing and be caught by chance.
 */
import path from "node:path";
import type { Plugin } from "vitest/config";
import { mutants } from "./mutants.ts";

/** Printed once the fault is in place: a run that failed without this line has failed for another reason. */
export const plantedLine = "PLANTED";

export const mutantPlugin = (name: string, root: string): Plugin => {
  const mutant = mutants.find((one) => one.name === name);
  if (mutant === undefined) throw new Error(`HOLDFAST_MUTANT=${name}: test/mutants/mutants.ts has no such fault`);
  const { file, find, put } = mutant;
  const target = path.join(root, file);
  return {
    name: "mutant",
    enforce: "pre",
    transform(code, id) {
      if (id.split("?")[0] !== target) return undefined;
      const parts = code.split(find);
      if (parts.length !== 2)
        throw new Error(`the place of the fault "${name}" is ${parts.length - 1} times in ${file}`);
      console.log(plantedLine, name);
      return parts.join(put);
    },
  };
};
