/**
 * Mounts of a claim that are still there after the plugin was asked to take them away.
 *
 * G1 The process that uses the mount is looked for and named: from the second failure on, whatever the code, and at the first where the
 *    code says that asking again does not help.
 * G2 The agent unmounts only what the journal says is its own, at its very path, after two answers that it was gone, and while no process
 *    uses it; never lazily, so that the kernel itself refuses what is in use.
 */
import type { Logger } from "@holdfast/shared/log/logger";
import type { Halt } from "../domain/answer-types.ts";
import type { VolumeRef } from "../domain/types.ts";
import type { CallFailure, KillableChildren, MountTable } from "../ports.ts";
import { ailmentHalt, askedAgainHalt, callHalt, heldOpenHalt, stillMountedHalt } from "./halts.ts";
import { namesOf } from "./order-facts.ts";

/** What the plugin was asked, and what it said. */
export interface Undone {
  readonly ref: VolumeRef;
  readonly claimUid: string;
  readonly path: string;
  readonly method: "NodeUnpublishVolume" | "NodeUnstageVolume";
}

export interface LingeringMounts {
  failed(undone: Undone, failure: CallFailure): Promise<Halt>;
  /** The plugin said that it is gone, and it is not. Undefined: now it is. */
  stays(undone: Undone, code: string): Promise<Halt | undefined>;
  /** It is gone. */
  over(path: string): void;
  /** What was unmounted here for a claim; told once. */
  takeUnmounted(claimUid: string): { readonly unmounted?: readonly string[] };
}

export interface LingeringMountsOptions {
  readonly mounts: Pick<MountTable, "look" | "findHolder">;
  readonly children: Pick<KillableChildren, "run">;
  readonly log: Logger;
}

const patience = 2;
/** More than are ever stacked at one path. */
const maxUnmounts = 8;

export function createLingeringMounts({ mounts, children, log }: LingeringMountsOptions): LingeringMounts {
  const failures = new Map<string, number>();
  const unmounted = new Map<string, readonly string[]>();

  const countOf = (path: string): number => {
    const count = (failures.get(path) ?? 0) + 1;
    failures.set(path, count);
    return count;
  };

  /** G2. Undefined: it is gone. */
  const unmount = async ({ ref, claimUid, path, method }: Undone, code: string): Promise<Halt | undefined> => {
    for (let count = 0; count < maxUnmounts; count += 1) {
      const lines = (await mounts.look(false)).under(path);
      const own = lines.find((line) => line.path === path);
      if (own === undefined) {
        log.warn("the agent unmounted what its plugin had left mounted", { ...namesOf(ref), claim: claimUid, path });
        unmounted.set(claimUid, [...(unmounted.get(claimUid) ?? []), path]);
        failures.delete(path);
        return undefined;
      }
      const end = await children.run(ref.volumeUid, "umount", ["--no-canonicalize", path]);
      if (end.kind === "hung") return ailmentHalt(ref, "hung", path);
      if (end.code !== 0) return stillMountedHalt(ref, method, code, path, end.said);
    }
    return stillMountedHalt(ref, method, code, path);
  };

  return {
    async failed({ ref, path }, failure) {
      const said = callHalt(ref, failure);
      if (!failure.sent || (countOf(path) < patience && said.blocked === undefined)) return said;
      const holder = await mounts.findHolder(path); // G1
      return holder === undefined ? said : heldOpenHalt(ref, holder, path, failure);
    },
    async stays(undone, code) {
      const { ref, path, method } = undone;
      const below = (await mounts.look(false)).under(path).findLast((line) => line.path !== path);
      if (below !== undefined) return stillMountedHalt(ref, method, code, below.path);
      if (countOf(path) < patience) return askedAgainHalt(ref, method, code, path);
      const holder = await mounts.findHolder(path); // G1
      const answer = { method, code, message: "" };
      return holder === undefined ? await unmount(undone, code) : heldOpenHalt(ref, holder, path, answer);
    },
    over: (path) => void failures.delete(path),
    takeUnmounted(claimUid) {
      const paths = unmounted.get(claimUid);
      unmounted.delete(claimUid);
      return paths === undefined ? {} : { unmounted: paths };
    },
  };
}
