import { mkdir, rmdir, stat, unlink, writeFile } from "node:fs/promises";
import path from "node:path";
import type { PathFacts } from "../backend/call.ts";
import type { Method, Requests } from "../backend/rpc.ts";

/** A node call of those that touch the host. */
export type HandsOnMethod =
  | "NodeStageVolume"
  | "NodeUnstageVolume"
  | "NodePublishVolume"
  | "NodeUnpublishVolume"
  | "NodeExpandVolume";
export type HandsOnCall = {
  [M in HandsOnMethod]: { readonly method: M; readonly request: Requests[M] };
}[HandsOnMethod];

const handsOnMethods: ReadonlySet<Method> = new Set<HandsOnMethod>([
  "NodeStageVolume",
  "NodeUnstageVolume",
  "NodePublishVolume",
  "NodeUnpublishVolume",
  "NodeExpandVolume",
]);

export const isHandsOn = (call: { readonly method: Method; readonly request: unknown }): call is HandsOnCall =>
  handsOnMethods.has(call.method);

/** What the plugin sees and does on the host it runs on. */
export interface Host {
  /** Nothing when paths are made up. */
  look(call: HandsOnCall): Promise<PathFacts | undefined>;
  /** Absent when there is nothing to do. Idempotent. */
  readonly work?: (call: HandsOnCall, capacity: bigint) => Promise<void>;
}

/** For tests whose paths exist nowhere. */
export const blindHost: Host = { look: async () => undefined };

const kindOf = async (where: string): Promise<"directory" | "missing" | "other"> => {
  try {
    return (await stat(where)).isDirectory() ? "directory" : "other";
  } catch {
    return "missing";
  }
};

export const lookAtPaths = async (call: HandsOnCall): Promise<PathFacts> => {
  if (call.method === "NodeStageVolume") return { stagingPath: await kindOf(call.request.stagingTargetPath) };
  if (call.method === "NodePublishVolume") return { targetParent: await kindOf(path.dirname(call.request.targetPath)) };
  return {};
};

const unless = (code: string) => (error: unknown) => {
  if ((error as NodeJS.ErrnoException).code !== code) throw error;
};

/** "The SP creates the target": a directory for a filesystem, a file for a block device. One level, as the spec has it. */
export const makeTarget = async (target: string, block: boolean): Promise<void> => {
  if (block) await writeFile(target, "", { flag: "a" });
  else await mkdir(target, { mode: 0o750 }).catch(unless("EEXIST"));
};

/** Never more than one empty directory or one file: a recursive delete here could reach into a volume. */
export const removeTarget = async (target: string): Promise<void> => {
  const kind = await kindOf(target);
  if (kind === "directory") await rmdir(target).catch(unless("ENOENT"));
  if (kind === "other") await unlink(target).catch(unless("ENOENT"));
};

/** Makes and removes targets as a plugin does, but mounts nothing. */
export const directoryHost: Host = {
  look: lookAtPaths,
  work: async (call) => {
    if (call.method === "NodePublishVolume")
      await makeTarget(call.request.targetPath, call.request.volumeCapability?.block !== undefined);
    if (call.method === "NodeUnpublishVolume") await removeTarget(call.request.targetPath);
  },
};
