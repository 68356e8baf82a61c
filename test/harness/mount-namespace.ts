import { spawnSync } from "node:child_process";
import { readFile, readlink } from "node:fs/promises";
import { tmpdir } from "node:os";
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
 * Copies of other tests' mounts would keep their devices busy: what stands in the directory for temporary files is taken away
 * here, and what the host unmounts elsewhere goes away inside as well, if it is shared (`slave`).
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
  const within = (...command: readonly string[]) =>
    spawnSync("nsenter", [`--mount=/proc/${keeper.pid}/ns/mnt`, ...command], { encoding: "utf8" });
  const copies = (await readFile(`/proc/${keeper.pid}/mountinfo`, "utf8"))
    .split("\n")
    .map((line) => line.split(" ")[4] ?? "")
    .filter((at) => at.startsWith(`${tmpdir()}/`));
  if (copies.length > 0) within("umount", "--lazy", ...copies.reverse());
  for (const [file, shown] of Object.entries(over)) {
    const { status, stderr } = within("mount", "--bind", shown, file);
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
