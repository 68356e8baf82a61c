import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";

export interface DurabilityFault {
  readonly found: string;
  readonly cure: string;
}

/** INFO's answer as a map. */
export const parseInfo = (text: string): ReadonlyMap<string, string> =>
  new Map(
    text
      .split(/\r?\n/)
      .filter((line) => line.includes(":") && !line.startsWith("#"))
      .map((line) => {
        const colon = line.indexOf(":");
        return [line.slice(0, colon), line.slice(colon + 1).trim()] as const;
      }),
  );

interface Rule {
  readonly holds: (info: ReadonlyMap<string, string>, config: ReadonlyMap<string, string> | undefined) => boolean;
  readonly found: string;
  readonly cure: string;
}

const rules: readonly Rule[] = [
  { holds: (i) => i.get("loading") !== "1", found: "it is still loading its data", cure: "wait until it is loaded" },
  {
    holds: (i) => i.get("role") === "master",
    found: "it is not the master",
    cure: "point HOLDFAST_STORE at the master",
  },
  {
    holds: (i) => i.get("aof_enabled") === "1",
    found: "the append-only file is off: a restart forgets every claim",
    cure: "CONFIG SET appendonly yes (and in redis.conf)",
  },
  {
    holds: (_i, c) => c === undefined || c.get("appendfsync") === "always",
    found: "appendfsync is not `always`: a power loss forgets what was acknowledged",
    cure: "CONFIG SET appendfsync always (and in redis.conf)",
  },
  {
    holds: (_i, c) => c === undefined || c.get("no-appendfsync-on-rewrite") === "no",
    found: "no-appendfsync-on-rewrite is on: no fsync while the file is rewritten",
    cure: "CONFIG SET no-appendfsync-on-rewrite no (and in redis.conf)",
  },
  {
    holds: (i) => i.get("maxmemory_policy") === "noeviction",
    found: "maxmemory-policy evicts keys",
    cure: "CONFIG SET maxmemory-policy noeviction (and in redis.conf)",
  },
  {
    holds: (i) => i.get("aof_last_write_status") !== "err",
    found: "the last write to the append-only file failed",
    cure: "free disk space or mend the disk, then look at INFO persistence",
  },
  {
    holds: (i, c) =>
      Number(i.get("connected_slaves") ?? 0) === 0 ||
      c === undefined ||
      Number(c.get("min-replicas-to-write") ?? 0) >= 1,
    found: "there are replicas and min-replicas-to-write is 0: a failover loses acknowledged writes",
    cure: "CONFIG SET min-replicas-to-write 1 (and in redis.conf)",
  },
];

/** What makes this Redis unfit to remember claims. `config` is undefined where CONFIG is forbidden and the operator vouches for it. */
export const durabilityFaults = (
  info: ReadonlyMap<string, string>,
  config: ReadonlyMap<string, string> | undefined,
): readonly DurabilityFault[] =>
  rules.filter((rule) => !rule.holds(info, config)).map(({ found, cure }) => ({ found, cure }));

export const volatileStore = (place: string, faults: readonly DurabilityFault[]): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "STORE_VOLATILE",
    message: [
      `the Redis at ${place} may forget what it acknowledged:`,
      ...faults.map((f) => `  - ${f.found}; cure: ${f.cure}`),
      "Claims kept there could be granted twice. Mend it, or set HOLDFAST_ALLOW_VOLATILE_STORE=1 where nothing is at stake.",
    ].join("\n"),
    metadata: { store: place },
  });
