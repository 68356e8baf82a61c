/**
 * Which processes are threads of the kernel and live where the first process does: most of those of a small host, and a scan of all
 * processes need not ask each of them where it is. They run no program that could enter another mount namespace.
 *
 * Y1 All of them are children of kthreadd, which lists its children in the order of their births: who stands behind another is younger.
 * Y2 A number may belong to somebody else by now. The last of those that stand in their old order is looked at: if it was started when
 *    it was, it is the same, and all before it, being older than it, are the same too.
 * Y3 Helpers that the kernel starts (for core dumps, for modules) are children of kthreadd and programs: they are asked each time, as
 *    is a thread with a mount namespace of its own.
 */
import { closeSync, readlinkSync, readSync } from "node:fs";
import { type ProcessStat, processStat } from "@holdfast/shared/lock/process-stat";
import { openedOrGone } from "./opened-or-gone.ts";

interface Child {
  readonly pid: string;
  /** In ticks since the boot. */
  readonly started: string;
  /** Undefined for what runs a program. */
  readonly namespace: string | undefined;
}

/** PF_KTHREAD, of a kernel's flags of a process. */
const kernelThread = 0x00200000;

export interface KernelThreads {
  /** Those whose mount namespace is this one. */
  within(namespace: string): ReadonlySet<string>;
  close(): void;
}

export function createKernelThreads(proc: string): KernelThreads {
  const buffer = Buffer.allocUnsafe(1 << 16);
  let known: readonly Child[] = [];
  let passed: { readonly namespace: string; readonly pids: ReadonlySet<string> } | undefined;

  function textOf(fd: number): string {
    let size = 0;
    for (let read = -1; read !== 0 && size < buffer.length; size += read)
      read = readSync(fd, buffer, size, buffer.length - size, size);
    return buffer.toString("latin1", 0, size);
  }

  /** Undefined: it has ended. */
  function standing(pid: string): ProcessStat | undefined {
    const fd = openedOrGone(`${proc}/${pid}/stat`);
    if (fd === undefined) return undefined;
    try {
      return processStat(textOf(fd));
    } catch {
      return undefined;
    } finally {
      closeSync(fd);
    }
  }
  const isKernelThread = (stat: ProcessStat | undefined): boolean => ((stat?.flags ?? 0) & kernelThread) !== 0;

  /** Held open: kthreadd never ends. Undefined where the kernel lists no children. */
  const list = isKernelThread(standing("2")) ? openedOrGone(`${proc}/2/task/2/children`) : undefined;

  const lookAt = (pid: string): Child | undefined => {
    const stat = standing(pid);
    const started = stat?.startTime;
    if (started === undefined) return undefined;
    try {
      return { pid, started, namespace: isKernelThread(stat) ? readlinkSync(`${proc}/${pid}/ns/mnt`) : undefined };
    } catch {
      return undefined;
    }
  };

  /** Y1, Y2 */
  const unchanged = (pids: readonly string[]): readonly Child[] => {
    const same: Child[] = [];
    let at = 0;
    for (const pid of pids) {
      while (at < known.length && known[at]?.pid !== pid) at += 1;
      const child = known[at];
      if (child === undefined) break;
      same.push(child);
      at += 1;
    }
    for (
      let last = same.at(-1);
      last !== undefined && standing(last.pid)?.startTime !== last.started;
      last = same.at(-1)
    )
      same.pop();
    return same;
  };

  return {
    within(namespace) {
      const pids =
        list === undefined
          ? []
          : textOf(list)
              .split(" ")
              .filter((pid) => pid !== "");
      const same = unchanged(pids);
      const isAsBefore = same.length === pids.length && same.length === known.length;
      if (!isAsBefore) known = [...same, ...pids.slice(same.length).flatMap((pid) => lookAt(pid) ?? [])];
      if (!isAsBefore || passed?.namespace !== namespace) {
        const there = known.filter((child) => child.namespace === namespace); // Y3
        passed = { namespace, pids: new Set(there.map(({ pid }) => pid)) };
      }
      return passed.pids;
    },
    close() {
      if (list !== undefined) closeSync(list);
    },
  };
}
