/**
 * The controller's own memory beside the store: who it is, how often it has started, and which installation it belongs to.
 *
 * D1 One controller per state directory. The lock is the kernel's and ends with the process.
 * D2 Each start has its own number, durable before anything is called under it.
 * D3 An earlier life of this directory is over when this one has the lock on the same boot of the same kernel: the lock ended with its
 *    process. A copy of the directory, another boot, or a directory that was lost proves nothing of any life.
 * D4 No two lives have one name: contents that were put back from a copy count the same starts again, so that each start adds a word.
 */
import { mkdirSync, statSync } from "node:fs";
import path from "node:path";
import { readDurableText, writeDurableText } from "@holdfast/shared/durable-text";
import { takeStateDirectory } from "@holdfast/shared/lock/state-directory";
import { type CallLog, openCallLog } from "./call-log.ts";
import type { Lineage } from "./gate/lineage.ts";

/** Remembered of the newest: a store that has lost more than these is looked at by a person. */
const mostVettings = 64;

export interface StateDir {
  /** Stable over restarts. */
  readonly id: string;
  /** Counts the starts. */
  readonly incarnation: number;
  /** Of this life alone, also where the starts are counted anew (D4): whose calls an intent speaks of. */
  readonly issuer: string;
  /** D3 */
  readonly isFormerLife: (issuer: string) => boolean;
  /** The history of the store that this controller belonged to, as the gate wants to know it. */
  readonly lineage: Lineage;
  /** Of the calls in sockets beside it. */
  readonly calls: CallLog;
  release(): void;
}

export const openStateDir = async (
  directory: string,
  { id, uuid }: { readonly id: string | undefined; readonly uuid: () => string },
): Promise<StateDir> => {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const { release } = await takeStateDirectory(directory, "controller"); // D1
  const calls = openCallLog(path.join(directory, "calls"));
  const kept = (name: string): string | undefined => read(path.join(directory, name));
  const keep = (name: string, text: string): void => writeDurableText(path.join(directory, name), `${text}\n`);
  const known = kept("controller-id");
  if (known === undefined) keep("controller-id", uuid());
  const incarnation = Number(kept("incarnation") ?? "0") + 1;
  keep("incarnation", String(incarnation)); // D2
  const own = id ?? kept("controller-id") ?? uuid();
  const line = lineOf(kept("line"), directory, uuid);
  keep("line", line.text);
  let vettings: readonly string[] = kept("vettings")?.split("\n") ?? [];
  let generation = Number(kept("generation") ?? "0");
  return {
    id: own,
    incarnation,
    issuer: `${own}/${incarnation}-${line.name}.${uuid().slice(0, 8)}`, // D4
    isFormerLife(issuer) {
      const [, controller, life, name] = /^(.*)\/(\d+)-([^/.]+)(?:\.[^/.]+)?$/.exec(issuer) ?? [];
      return controller === own && name === line.name && Number(life) < incarnation;
    },
    lineage: {
      read: () => kept("cluster-uid"),
      remember(clusterUid) {
        if (kept("cluster-uid") !== clusterUid) keep("cluster-uid", clusterUid);
      },
      knows: (uid) => vettings.includes(uid),
      saw({ gen, uid }) {
        if (uid === "" || vettings.includes(uid)) return;
        vettings = [...vettings, uid].slice(-mostVettings);
        keep("vettings", vettings.join("\n"));
        if (gen <= generation) return;
        generation = gen;
        keep("generation", String(gen));
      },
      generation: () => generation,
      nodes: () => kept("nodes")?.split("\n") ?? [],
      keepNodes: (names) => keep("nodes", names.join("\n")),
    },
    calls,
    release() {
      calls.close();
      release();
    },
  };
};

/**
 * D3: the lives of this very directory on this boot have one name in common. The directory is known by its inode, which a copy does not
 * share; what cannot be told is a line of its own.
 */
const lineOf = (
  before: string | undefined,
  directory: string,
  uuid: () => string,
): { readonly name: string; readonly text: string } => {
  const { dev, ino } = statSync(directory, { bigint: true });
  const boot = read("/proc/sys/kernel/random/boot_id") ?? uuid();
  const place = `${boot} ${dev}:${ino}`;
  const known = before?.startsWith(`${place} `) === true ? before.slice(place.length + 1) : undefined;
  const name = known ?? uuid().slice(0, 8);
  return { name, text: `${place} ${name}` };
};

const read = (file: string): string | undefined => {
  const text = readDurableText(file)?.trim();
  return text === "" ? undefined : text;
};
