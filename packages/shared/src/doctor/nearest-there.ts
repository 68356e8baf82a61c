import { stat } from "node:fs/promises";
import path from "node:path";

/** The directory itself, or the nearest above it that is there: what a start would find when it makes the rest. */
export const nearestThere = async (dir: string): Promise<string> => {
  const found = await stat(dir).catch(() => undefined);
  return found === undefined && dir !== "/" ? nearestThere(path.dirname(dir)) : dir;
};
