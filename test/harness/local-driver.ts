import { spawnSync } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { type ManagedProcess, startProcess } from "./managed-process.ts";

const main = path.resolve(import.meta.dirname, "../../packages/local-driver/src/main.ts");

export interface LocalDriverSpec {
  readonly sockets: readonly string[];
  readonly stateDir: string;
  readonly nodeId: string;
  readonly mountsOf?: number;
  readonly env?: Readonly<Record<string, string>>;
}

/** The driver as a process of its own, once it serves. */
export const startLocalDriver = async (spec: LocalDriverSpec): Promise<ManagedProcess> => {
  const driver = startProcess({
    name: `local-driver ${spec.nodeId}`,
    command: [process.execPath, main],
    ...(spec.mountsOf === undefined ? {} : { mountsOf: spec.mountsOf }),
    env: {
      HOLDFAST_LOCAL_SOCKET: spec.sockets.join(","),
      HOLDFAST_LOCAL_STATE_DIR: spec.stateDir,
      HOLDFAST_LOCAL_NODE_ID: spec.nodeId,
      ...spec.env,
    },
  });
  await driver.line((line) => line["message"] === "ready", "its line `ready`");
  return driver;
};

export interface LoopFile {
  readonly device: string;
  readonly file: string;
}

/** The loop devices of this machine whose file is below a directory, by what the kernel says of them. */
export const loopsUnder = async (dir: string): Promise<readonly LoopFile[]> => {
  const found: LoopFile[] = [];
  for (const name of await readdir("/sys/block")) {
    if (!name.startsWith("loop")) continue;
    const file = (await readFile(`/sys/block/${name}/loop/backing_file`, "utf8").catch(() => "")).trimEnd();
    if (file.startsWith(`${dir}/`)) found.push({ device: `/dev/${name}`, file });
  }
  return found;
};

/** Only after a failed test is there anything to let go of. */
export const detachLoopsUnder = async (dir: string): Promise<void> => {
  for (const { device } of await loopsUnder(dir)) spawnSync("losetup", ["--detach", device]);
};
