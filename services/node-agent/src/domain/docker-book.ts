/**
 * What Docker mounted on this host, as the journal has it: by volume the ids of the mounts, in the order in which they came. One claim stands
 * for all ids of a volume. Pure, and total.
 *
 * DB1 An id is in the book before anything is claimed for it, and stays until its mount is given back or proved abandoned.
 * DB2 A volume without ids is still in the book until its claim is on its way out: what is owed is known after a crash.
 */
import type { AccessMode } from "@holdfast/model/access";

export interface MountId {
  readonly id: string;
  /** The life of dockerd that asked last; empty: not known. */
  readonly daemon: string;
  /** dockerd was told where the volume is, or was about to be. */
  readonly answered: boolean;
}

export type DockerBook = Readonly<Record<string, readonly MountId[]>>;

export const nothingOfDocker: DockerBook = {};

/** Durable, as every record of the journal. */
export type DockerRecord = { readonly volume: string } & (
  | { readonly type: "wanted"; readonly id: string; readonly daemon: string }
  | { readonly type: "answered"; readonly id: string }
  | { readonly type: "dropped"; readonly ids: readonly string[] }
  /** Its claim is on its way out. */
  | { readonly type: "settled" }
);

const changed = (ids: readonly MountId[] | undefined, record: DockerRecord): readonly MountId[] | undefined => {
  switch (record.type) {
    case "wanted": {
      const { id, daemon } = record;
      const known = ids?.some((one) => one.id === id) === true;
      if (known) return ids.map((one) => (one.id === id ? { ...one, daemon } : one));
      return [...(ids ?? []), { id, daemon, answered: false }];
    }
    case "answered":
      return ids?.map((one) => (one.id === record.id ? { ...one, answered: true } : one));
    case "dropped":
      return ids?.filter(({ id }) => !record.ids.includes(id));
    case "settled":
      // A mount that came meanwhile keeps it.
      return ids?.length === 0 ? undefined : ids;
  }
};

export const applyDocker = (book: DockerBook, record: DockerRecord): DockerBook => {
  const { [record.volume]: ids, ...others } = book;
  const next = changed(ids, record);
  return next === undefined ? others : { ...others, [record.volume]: next };
};

/** The id that the volume is for alone, when that is another one: its mode allows one writer on one node. */
export const soleIdBeside = (ids: readonly MountId[], id: string, mode: AccessMode): string | undefined => {
  const [first] = ids;
  return mode === "SINGLE_NODE_SINGLE_WRITER" && first !== undefined && first.id !== id ? first.id : undefined;
};

export interface IdFacts {
  /** The life of dockerd that is there now; empty: not known. */
  readonly daemon: string;
  /** Whether a process or a mount namespace other than the agent's uses the mount; undefined: that cannot be seen from here. */
  readonly used: boolean | undefined;
  /** A call with this id is under way, or was in this life of the agent. */
  readonly asked: (id: string) => boolean;
  /** dockerd has no call open any more that an earlier life of the agent got. */
  readonly callsOver: boolean;
}

/**
 * The ids whose mounts nothing will give back: dockerd has started anew since and nothing uses the mount, or the call was cut with the
 * agent's former life and never repeated. In doubt an id stays.
 */
export const abandonedIds = (ids: readonly MountId[], facts: IdFacts): readonly string[] =>
  ids
    .filter(({ id, daemon, answered }) => {
      if (facts.asked(id) && daemon === facts.daemon) return false;
      if (!answered && facts.callsOver && !facts.asked(id)) return true;
      const startedAnew = daemon !== "" && facts.daemon !== "" && daemon !== facts.daemon;
      return startedAnew && facts.used === false;
    })
    .map(({ id }) => id);
