import { mkdirSync } from "node:fs";
import path from "node:path";
import { readDurableText, writeDurableText } from "@holdfast/shared/durable-text";

/** What a controller remembers of its store outside of the store: a short text in its state directory, replaced as a whole. */
export interface StateFile {
  readonly path: string;
  /** undefined: nothing was written yet. */
  read(): string | undefined;
  /** On disk when it returns. Used at the start only, so that waiting for the disk keeps nobody waiting. */
  write(text: string): void;
}

export const createStateFile = (stateDir: string, name: string): StateFile => {
  const file = path.join(stateDir, name);
  const read = (): string | undefined => readDurableText(file)?.trim();
  return {
    path: file,
    read,
    write(text) {
      if (read() === text) return;
      mkdirSync(stateDir, { recursive: true });
      writeDurableText(file, `${text}\n`);
    },
  };
};
