import { realpath, rm } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { childrenOf, loopsBelow, mountsBelow } from "./host-facts.ts";
import { runCommand } from "./run-command.ts";

const tolerant = (work: Promise<unknown>): Promise<unknown> => work.catch(() => undefined);

/** What booting the host would do: no process, mount or loop device below the directory is left. Files stay. */
export const tearDown = async (home: string, stateDir: string): Promise<void> => {
  for (const pid of await childrenOf(stateDir)) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It ended by itself.
    }
  }
  // A private mount namespace of another test may keep a copy of a mount until that test ends.
  for (let round = 0; round < 300; round += 1) {
    const mounts = await mountsBelow(home);
    // A filesystem that stayed frozen could be unmounted and never be mounted again.
    for (const { point } of mounts) await tolerant(runCommand("fsfreeze", "--unfreeze", point));
    for (const { point } of [...mounts].reverse()) await tolerant(runCommand("umount", point));
    const loops = await loopsBelow(home);
    for (const { device } of loops) await tolerant(runCommand("losetup", "--detach", device));
    if (mounts.length === 0 && loops.length === 0) return;
    await sleep(100);
  }
  const left = [...(await mountsBelow(home)), ...(await loopsBelow(home))];
  throw new Error(`cannot be cleaned up: ${JSON.stringify(left)}`);
};

export const cleanUp = async (home: string, stateDir: string): Promise<void> => {
  await tearDown(await realpath(home), stateDir);
  // `rm -r` would go through a mount: there is none, tearDown has seen to it.
  await rm(home, { recursive: true, force: true });
};
