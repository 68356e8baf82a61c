import type { AggregateKind, AggregateRef } from "../../domain/store-types.ts";

/** One letter a kind, to keep every index entry short. Total, and both ways round; never reuse a letter. */
const letters: Readonly<Record<AggregateKind, string>> = {
  volume: "v",
  "claim-set": "c",
  node: "n",
  "attach-limit": "l",
  snapshot: "s",
  group: "g",
  plugin: "p",
  secret: "k",
  tombstone: "t",
  meta: "m",
  audit: "a",
  orphan: "o",
  quota: "q",
  grant: "r",
  "node-token": "j",
  denial: "d",
};
const kinds: ReadonlyMap<string, AggregateKind> = new Map(
  Object.entries(letters).map(([kind, letter]) => [letter, kind as AggregateKind]),
);

/** What stands for a record inside Redis: `<letter>:<key>`. */
export const memberOf = ({ kind, key }: AggregateRef): string => `${letters[kind]}:${key}`;

export const refOfMember = (member: string): AggregateRef => {
  const kind = kinds.get(member.slice(0, 1));
  if (kind === undefined) throw new Error(`"${member}" in the store is of no known kind`);
  return { kind, key: member.slice(2) };
};

export interface RedisKeys {
  /** All keys of the cell begin so; the braces put them into one slot. */
  readonly prefix: string;
  readonly meta: string;
  readonly events: string;
  readonly expiry: string;
  /**
   * Never written. A node of a cluster answers a command that names it only while it has the whole slot: records that a function finds through
   * other keys, and so cannot declare, might be on another node already. A commit names its answer, which is not there yet either.
   */
  readonly absent: string;
  record(ref: AggregateRef): string;
  /** Of a commit, for as long as its caller may look for it. */
  answer(commit: string): string;
  index(index: string, value: string): string;
  queue(queue: string): string;
}

export const createRedisKeys = (cell: string): RedisKeys => {
  const prefix = `{hf:${cell}}`;
  return {
    prefix,
    meta: `${prefix}meta`,
    events: `${prefix}events`,
    expiry: `${prefix}expiry`,
    absent: `${prefix}absent`,
    record: (ref) => `${prefix}r:${memberOf(ref)}`,
    answer: (commit) => `${prefix}o:${commit}`,
    index: (index, value) => `${prefix}i:${index}:${value}`,
    queue: (queue) => `${prefix}q:${queue}`,
  };
};
