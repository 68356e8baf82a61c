/** Which life of dockerd is there now: its pid file is written anew at each of its starts. */
import { readFile, stat } from "node:fs/promises";

/** Empty: there is no such file, or it cannot be read. */
export const createDaemonLife = (pidFile: string) => async (): Promise<string> => {
  try {
    const [{ ino, mtimeMs }, pid] = await Promise.all([stat(pidFile), readFile(pidFile, "utf8")]);
    return `${pid.trim()}@${ino}.${mtimeMs}`;
  } catch {
    return "";
  }
};
