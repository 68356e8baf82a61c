import { fdatasync, open, write } from "node:fs";
import { promisify } from "node:util";

export interface BareJournal {
  /** Resolves when the line is on disk. */
  append(line: string): Promise<void>;
}

/** Append and fdatasync, and nothing else. Lines that come while a sync runs share the next one. */
export const openBareJournal = async (file: string): Promise<BareJournal> => {
  const fd = await promisify(open)(file, "a");
  let waiting: { readonly line: string; readonly done: (error: Error | null) => void }[] = [];
  let busy = false;

  const flush = (): void => {
    const batch = waiting;
    waiting = [];
    busy = batch.length > 0;
    if (!busy) return;
    const settle = (error: Error | null): void => {
      for (const { done } of batch) done(error);
      flush();
    };
    write(fd, batch.map(({ line }) => line).join(""), (error) => {
      if (error === null) fdatasync(fd, settle);
      else settle(error);
    });
  };

  return {
    append: (line) =>
      new Promise((resolve, reject) => {
        waiting.push({ line, done: (error) => (error === null ? resolve() : reject(error)) });
        if (!busy) flush();
      }),
  };
};
