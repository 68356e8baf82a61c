import { spawnSync } from "node:child_process";
import { readFile, readlink } from "node:fs/promises";
import { startProcess } from "./managed-process.ts";
import { until } from "./until.ts";

/** A mount namespace of a test: what is mounted in it is not mounted on the host, and is gone with it. */
export interface MountNamespace {
  /** Of the process that keeps it. */
  readonly pid: number;
  /** A path as it is inside, for whoever is outside. */
  inside(file: string): string;
  /** Lines of its mount table that name the text. */
  lines(text: string): Promise<readonly string[]>;
  end(): Promise<unknown>;
}

interface MountNamespaceOptions {
  /** Files that show another one's content inside. */
  readonly over?: Readonly<Record<string, string>>;
}

/**
 * What the host unmounts goes away inside as well (`slave`): copies of other tests' mounts would otherwise keep their
 * devices busy.
 */
export const startMountNamespace = async ({ over = {} }: MountNamespaceOptions = {}): Promise<MountNamespace> => {
  const keeper = startProcess({
    name: "mount namespace",
    command: ["unshare", "--mount", "--propagation", "slave", "sleep", "infinity"],
  });
  const own = await readlink("/proc/self/ns/mnt");
  await until("the mount namespace", async () => {
    const command = await readFile(`/proc/${keeper.pid}/comm`, "utf8");
    return (command.trim() === "sleep" && (await readlink(`/proc/${keeper.pid}/ns/mnt`)) !== own) || undefined;
  });
  for (const [file, shown] of Object.entries(over)) {
    const enter = [`--mount=/proc/${keeper.pid}/ns/mnt`, "mount", "--bind", shown, file];
    const { status, stderr } = spawnSync("nsenter", enter, { encoding: "utf8" });
    if (status !== 0) throw new Error(`${shown} was not bound over ${file}: ${stderr}`);
  }
  return {
    pid: keeper.pid,
    inside: (file) => `/proc/${keeper.pid}/root${file}`,
    lines: async (text) =>
      (await readFile(`/proc/${keeper.pid}/mountinfo`, "utf8")).split("\n").filter((line) => line.includes(text)),
    end: () => keeper.kill("SIGKILL"),
  };
};
