import { mkdtemp, rm } from "node:fs/promises";
import path from "node:path";
import { unmountBelow } from "./unmount.ts";

/** As on a host, where HOLDFAST_ROOT_DIR is below /run: docs/adr/0010-mount-points-in-memory.md. */
const memory = "/dev/shm";

export interface MountRoot {
  readonly dir: string;
  /** With whatever a failed run left mounted. */
  remove(): Promise<void>;
}

export const mountsBelow = async (): Promise<MountRoot> => {
  const dir = await mkdtemp(path.join(memory, "hfb-"));
  return {
    dir,
    remove: async () => {
      unmountBelow(dir);
      await rm(dir, { recursive: true, force: true });
    },
  };
};
