import { readdir, stat, truncate } from "node:fs/promises";
import path from "node:path";
import type { RedisServer } from "./redis-server.ts";

/** The end of a server's append-only file at one moment. */
export interface RedisLogEnd {
  /** Takes away all that was written since; the server must not run. */
  cutBack(): Promise<void>;
}

const newestFile = async ({ dir }: RedisServer): Promise<string> => {
  const folder = path.join(dir, "appendonlydir");
  const number = (name: string): number => Number(/\.(\d+)\.incr\.aof$/.exec(name)?.[1] ?? 0);
  const [newest] = (await readdir(folder)).toSorted((a, b) => number(b) - number(a));
  if (newest === undefined || number(newest) === 0) throw new Error(`${folder} has no append-only file`);
  return path.join(folder, newest);
};

export const endOfLog = async (server: RedisServer): Promise<RedisLogEnd> => {
  const file = await newestFile(server);
  const { size } = await stat(file);
  return {
    async cutBack() {
      const now = await newestFile(server);
      // A file that was begun since holds nothing older.
      await truncate(now, now === file ? size : 0);
    },
  };
};
