import path from "node:path";
import { type ManagedProcess, startProcess } from "../../test/harness/managed-process.ts";

export interface FloorProcesses {
  /** NAME-main.ts, once it says where it listens. */
  start(name: string, ...args: readonly string[]): Promise<{ readonly address: string; readonly pid: number }>;
  stop(): Promise<void>;
}

/** All of them with that environment. */
export const createFloorProcesses = (env: Readonly<Record<string, string>>): FloorProcesses => {
  const started: ManagedProcess[] = [];
  return {
    start: async (name, ...args) => {
      const file = path.join(import.meta.dirname, `${name}-main.ts`);
      const process_ = startProcess({ name: `floor ${name}`, command: [process.execPath, file, ...args], env });
      started.push(process_);
      const line = await process_.line((one) => one["message"] === "ready", "its line `ready`");
      return { address: String(line["address"]), pid: process_.pid };
    },
    stop: async () => {
      for (const each of started.reverse()) await each.kill("SIGTERM");
    },
  };
};
