import { open } from "node:fs/promises";
import { hostFailure } from "./host-failure.ts";

/** Contents and size of the file are on the disk when it resolves. */
export async function syncFile(file: string): Promise<void> {
  try {
    const handle = await open(file, "r");
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  } catch (error) {
    throw hostFailure(`sync ${file}`, error);
  }
}
