/** Every adapter on the real kernel, over a temporary state directory; what a test leaves is found, named and taken away. */
import { mkdir, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import path from "node:path";
import { parseMountinfo } from "@holdfast/model/mountinfo";
import { createCopier } from "../host/copier.ts";
import { type FileIdentity, identityOfFile } from "../host/file-identity.ts";
import { createFilesystems } from "../host/filesystems.ts";
import { createFreezer } from "../host/freezer.ts";
import { createImages } from "../host/images.ts";
import { loopFiles } from "../host/loop-files.ts";
import { createLoops } from "../host/loops.ts";
import { createMounts } from "../host/mounts.ts";
import { createPlaces } from "../host/places.ts";
import { createRunTool } from "../host/run-tool.ts";
import { createSpace } from "../host/space.ts";

export const isRoot = userInfo().uid === 0;

export type HostRig = Awaited<ReturnType<typeof createHostRig>>;

/** `parent` decides on which filesystem it is; `name` may be anything that a path can hold. */
export async function createHostRig({ parent = tmpdir(), name = "hf-host-" } = {}) {
  const stateDir = await mkdtemp(path.join(parent, name));
  const run = createRunTool({ stateDir, nodeId: "node-a" });
  const loops = createLoops({ run });
  const mounts = createMounts({ run, stateDir });
  const at = (...parts: readonly string[]) => path.join(stateDir, ...parts);
  const signal = new AbortController().signal;

  /** Of files in here by what they are, of deleted ones by what they were called. */
  const boundFiles = async (): Promise<readonly string[]> => {
    const bound = await loopFiles({ run, sys: "/sys" }, signal);
    if (bound.length === 0) return [];
    const files = new Map<FileIdentity | undefined, string>();
    for (const entry of await readdir(stateDir, { recursive: true, withFileTypes: true })) {
      const file = path.join(entry.parentPath, entry.name);
      if (entry.isFile()) files.set(await identityOfFile(file), file);
    }
    return bound.flatMap(({ device, identity, backingFile }) => {
      const named = backingFile.includes(path.basename(stateDir)) ? backingFile : undefined;
      const file = files.get(identity) ?? named;
      return file === undefined ? [] : [`${device} ${file}`];
    });
  };

  /** What is left of the test: loop devices of files in here, and mounts. */
  const leftovers = async (): Promise<readonly string[]> => {
    const mounted = parseMountinfo(await readFile("/proc/self/mountinfo", "utf8")).map((line) => line.path);
    return [...(await boundFiles()), ...mounted.filter((place) => place.startsWith(`${stateDir}/`))];
  };

  return {
    stateDir,
    signal,
    at,
    run,
    loops,
    mounts,
    images: createImages({ run, loops }),
    copier: createCopier({ run, stateDir }),
    space: createSpace({ stateDir }),
    freezer: createFreezer({ run, mounts }),
    places: createPlaces(),
    filesystems: createFilesystems({ run }),
    leftovers,
    makeDirectory: async (name: string) => {
      await mkdir(at(name), { recursive: true });
      return at(name);
    },
    /** Takes away what the test left and answers what it was: a good test leaves nothing. */
    close: async (): Promise<readonly string[]> => {
      const left = await leftovers();
      for (const line of [...left].reverse()) {
        if (line.startsWith("/dev/")) continue;
        await run("fsfreeze", ["-u", "--", line], { signal, judges: [0, 1] });
        await run("umount", ["-l", "--", line], { signal, judges: [0, 1, 32] });
      }
      for (const line of left)
        if (line.startsWith("/dev/"))
          await run("losetup", ["-d", line.split(" ")[0] ?? ""], { signal, judges: [0, 1] });
      await rm(stateDir, { recursive: true, force: true });
      return left;
    },
  };
}
