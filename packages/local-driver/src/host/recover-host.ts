import { readdir, rm } from "node:fs/promises";
import path from "node:path";
import type { Loops, Mounts } from "../ports.ts";
import { canonicalPath } from "./canonical-path.ts";
import { probePrefix } from "./copier.ts";
import { type FileIdentity, identityOfFile } from "./file-identity.ts";
import { errnoOf, hostFailure, messageOf } from "./host-failure.ts";
import { type LoopFile, loopFiles } from "./loop-files.ts";
import { bindingPlace } from "./mounts.ts";
import type { RunTool } from "./run-tool.ts";

export interface RecoverHostOptions {
  readonly stateDir: string;
  readonly run: RunTool;
  readonly mounts: Mounts;
  readonly loops: Loops;
  readonly sys?: string;
}

/**
 * What a killed life left of its own tools: a bind half-made, a loop device of a copy half-made, the files of a probe. To be called at the
 * start after the stray children are gone and before making/ and trash/ are emptied. The volumes' own mounts and devices are not touched.
 * Says what it did.
 */
export async function recoverHost(
  { stateDir, run, mounts, loops, sys = "/sys" }: RecoverHostOptions,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const did: string[] = [];
  const hidden = await canonicalPath(bindingPlace(stateDir));
  const mounted = async () => (await mounts.table()).some(({ mountPoint }) => mountPoint === hidden);
  while (await mounted()) {
    await mounts.unmount(hidden, signal);
    did.push(`unmounted ${hidden}, a bind that was not finished`);
  }
  const root = await canonicalPath(stateDir);
  for (const { loop, file } of await unfinished(root, { run, sys }, signal).catch((error: unknown) => {
    did.push(messageOf(error));
    return [];
  })) {
    const gone = loops.detach(loop, file, signal).then(() => `let go of ${loop.device}, of the unfinished ${file}`);
    did.push(await gone.catch((error: unknown) => messageOf(error)));
  }
  try {
    for (const name of await readdir(root))
      if (name.startsWith(probePrefix)) await rm(path.join(root, name), { recursive: true, force: true });
  } catch (error) {
    throw hostFailure(`tidy ${root}`, error);
  }
  return did;
}

interface Unfinished {
  readonly loop: LoopFile;
  readonly file: string;
}

/** Loop devices of images that no volume has. Those of volumes are judged with their records. */
async function unfinished(
  root: string,
  { run, sys }: { readonly run: RunTool; readonly sys: string },
  signal: AbortSignal,
): Promise<readonly Unfinished[]> {
  const bound = await loopFiles({ run, sys }, signal);
  if (bound.length === 0) return [];
  const images = new Map<FileIdentity, string>();
  for (const place of ["making", "trash", "snapshots"])
    for (const name of await namesIn(path.join(root, place))) {
      const image = path.join(root, place, name, "image");
      const identity = await identityOfFile(image);
      if (identity !== undefined) images.set(identity, image);
    }
  const found: Unfinished[] = [];
  for (const loop of bound) {
    const file = images.get(loop.identity) ?? (await namedBelow(root, loop));
    if (file !== undefined) found.push({ loop, file });
  }
  return found;
}

/** By the name that the kernel tells, which may be that of a file elsewhere. Of a file that was deleted it is all that is left. */
async function namedBelow(root: string, { backingFile, identity }: LoopFile): Promise<string | undefined> {
  const [, deleted] = /^(.*) \(deleted\)$/s.exec(backingFile) ?? [];
  const file = deleted ?? backingFile;
  if (!file.startsWith(`${root}/`) || file.startsWith(`${path.join(root, "volumes")}/`)) return undefined;
  const now = await identityOfFile(file);
  return now === identity || (now === undefined && deleted !== undefined) ? file : undefined;
}

async function namesIn(directory: string): Promise<readonly string[]> {
  try {
    return await readdir(directory);
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return [];
    throw hostFailure(`list ${directory}`, error);
  }
}
