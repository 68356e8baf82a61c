import { open } from "node:fs/promises";
import path from "node:path";
import type { Loops } from "../ports.ts";
import { hostFailure } from "./host-failure.ts";
import type { RunTool } from "./run-tool.ts";

/**
 * Mounts a copy for a moment, for the kernel to replay its log. Nothing of it outlives this process, however it ends: the mount is in
 * a namespace that dies with the program that made it, and the loop device is already let go of while we hold it open.
 * The copy hides its own directory there, so that no place has to be made for it. As a slave, the namespace lets go of other volumes'
 * mounts when they are unmounted here.
 */
export async function replayXfsLog(
  { run, loops }: { readonly run: RunTool; readonly loops: Loops },
  image: string,
  signal: AbortSignal,
): Promise<void> {
  const loop = await loops.attach(image, { readonly: false }, signal);
  try {
    const held = await open(loop.device, "r");
    try {
      // Held open, it stays until the last one lets go, and then goes by itself.
      await run("losetup", ["--detach", loop.device], { signal });
      const mount = ["mount", "-i", "-n", "-w", "-t", "xfs", "-o", "nouuid", "--", loop.device, path.dirname(image)];
      await run("unshare", ["--mount", "--propagation", "slave", "--", ...mount], { signal });
    } finally {
      await held.close();
    }
  } catch (error) {
    throw hostFailure(`open ${loop.device}`, error);
  } finally {
    await loops.detach(loop, image, new AbortController().signal);
  }
}
