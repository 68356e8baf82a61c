/**
 * Releases the claims of workloads that a scheduler no longer knows.
 *
 * A list of workloads is old when it arrives: claims may have been made since it was begun. No clock can tell which, so the store does: a
 * token is a position in the one order of all commits, taken before the list, and each claim's creation is an event in that order.
 *
 * R1 The claims are read before the position up to which events are read: the creation of each that is younger is among those. R2 Only
 * lives that were read are released, by their uid. R3 Without the whole history since the token nothing is released. R4 A set of claims is
 * released in one commit: whoever is interrupted leaves none of which a part still waits.
 */

import { linkSignals } from "@holdfast/shared/async/signals";
import { HoldfastError, invalidArgument, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Claim } from "../../domain/claim/claim.ts";
import { checkOptionalId, checkWorkload, type Violation } from "../../domain/limits.ts";
import type { StoredEvent } from "../../domain/store-types.ts";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import type { Store } from "../../ports.ts";
import { pagesOf } from "../../records/pages-of.ts";
import type { VersionedVolume } from "../../records/record-cache.ts";
import { releaseWholeSets } from "../../records/release-whole-sets.ts";
import type { VolumeRecords } from "../../records/volume/volume-records.ts";
import type { CommandDeps } from "../command-deps.ts";
import type { Commands, ReconcileWorkloadsInput, StaleClaim } from "../model.ts";
import { checkReason } from "../node/drain-node.ts";
import { volumesInNamespace } from "../volume/volume-queries.ts";
import { traceOf } from "./create-claims.ts";

const mostLive = 20_000;
const shown = 500;
const pageSize = 200;

const checkScope = ({ node, namespace, live, noneLive }: ReconcileWorkloadsInput): readonly Violation[] => [
  ...(node === "" && namespace === "" ? [{ field: "node", description: "or namespace is required" }] : []),
  ...(live.length === 0 && !noneLive
    ? [{ field: "live", description: "is empty: if that is so, none_live has to be true" }]
    : []),
  ...(live.length > 0 && noneLive ? [{ field: "none_live", description: "must not be true beside `live`" }] : []),
  ...(live.length > mostLive ? [{ field: "live", description: `holds more than ${mostLive}; go node by node` }] : []),
];

export const validateReconcileWorkloads = (input: ReconcileWorkloadsInput): void => {
  const violations = [
    ...(input.position === "" ? [{ field: "list_token", description: "is required: see GetListToken" }] : []),
    ...checkOptionalId("node", input.node),
    ...checkOptionalId("namespace", input.namespace),
    ...checkScope(input),
    ...checkReason(input.reason),
    ...input.live.slice(0, mostLive).flatMap(({ namespace, workload }, i) => {
      const both = namespace !== "" && input.namespace !== "" && namespace !== input.namespace;
      return [
        ...(namespace === "" && input.namespace === ""
          ? [{ field: `live[${i}].namespace`, description: "is required without a namespace of the request" }]
          : checkOptionalId(`live[${i}].namespace`, namespace)),
        ...(both ? [{ field: `live[${i}].namespace`, description: "is another than that of the request" }] : []),
        ...checkWorkload(`live[${i}].workload`, workload),
      ];
    }),
  ];
  if (violations.length > 0) throw invalidArgument(violations);
};

/** The uid of a claim whose creation the event tells of. */
const createdBy = ({ type, body }: StoredEvent): string | undefined => {
  if (type !== "claim") return undefined;
  const note: unknown = JSON.parse(body);
  if (typeof note !== "object" || note === null || !("created" in note) || !("uid" in note)) return undefined;
  return note.created === true && typeof note.uid === "string" ? note.uid : undefined;
};

const expired = (cause: unknown): HoldfastError =>
  new HoldfastError({
    kind: "out_of_range",
    reason: "LIST_TOKEN_EXPIRED",
    message:
      "which claims are younger than this list can no longer be told: too much has happened since its token was given, or the store was restarted; take a new token with GetListToken, make the list anew, and repeat",
    cause,
  });

/** Every claim that was created behind the position. */
export const createdSince = async (
  feed: Pick<Store, "head" | "watch">,
  position: string,
  signal: AbortSignal,
): Promise<ReadonlySet<string>> => {
  const uids = new Set<string>();
  const head = await feed.head();
  if (head === position) return uids;
  // Whoever gave up waits no longer for a store that is away.
  const done = linkSignals(signal);
  try {
    for await (const event of feed.watch(position, done.signal)) {
      const uid = createdBy(event);
      if (uid !== undefined) uids.add(uid);
      if (event.token === head) return uids;
    }
  } catch (error) {
    if (isHoldfastError(error) && error.reason === "EVENTS_TRIMMED") throw expired(error); // R3
    throw error;
  } finally {
    done.abort(new DOMException("read", "AbortError"));
    done.dispose();
  }
  signal.throwIfAborted();
  throw expired(undefined);
};

async function* volumesInScope(
  records: Pick<VolumeRecords, "list">,
  { node, namespace }: ReconcileWorkloadsInput,
): AsyncGenerator<VersionedVolume> {
  const from = node === "" ? (["claim-namespace", namespace] as const) : (["claim-node", node] as const);
  const page = (after: string | undefined) =>
    volumesInNamespace(records, from, { namespace }, { after, limit: pageSize });
  for await (const { volumes } of pagesOf(page)) yield* volumes;
}

interface Found {
  readonly volume: VolumeRecord;
  readonly claim: Claim;
}

interface Sorted {
  readonly stale: readonly Found[];
  readonly live: number;
  readonly releasing: number;
}

const sortClaims = async (records: Pick<VolumeRecords, "list">, input: ReconcileWorkloadsInput): Promise<Sorted> => {
  const alive = new Set(input.live.map(({ namespace, workload }) => `${namespace || input.namespace}/${workload}`));
  const stale: Found[] = [];
  let live = 0;
  let releasing = 0;
  for await (const { volume } of volumesInScope(records, input)) {
    if (input.namespace !== "" && volume.namespace !== input.namespace) continue;
    for (const claim of Object.values(volume.claims)) {
      if (input.node !== "" && claim.node !== input.node) continue;
      if (alive.has(`${volume.namespace}/${claim.workload}`)) live += 1;
      else if (claim.goal === "released") releasing += 1;
      else stale.push({ volume, claim });
    }
  }
  return { stale, live, releasing };
};

const staleClaim = ({ volume, claim }: Found): StaleClaim => ({
  namespace: volume.namespace,
  volume: volume.id,
  workload: claim.workload,
  alias: claim.alias,
  uid: claim.uid,
  node: claim.node,
  state: claim.state,
  createdAt: claim.createdAt,
});

export const createWorkloadReconciliation = (
  deps: CommandDeps,
): Pick<Commands, "listPosition" | "reconcileWorkloads"> => ({
  listPosition: () => deps.feed.head(),

  async reconcileWorkloads(input, caller, signal) {
    validateReconcileWorkloads(input);
    const { records, feed, clock } = deps;
    const { stale: found, live, releasing } = await sortClaims(records, input);
    const young = found.length === 0 ? new Set<string>() : await createdSince(feed, input.position, signal); // R1
    const stale = found.filter(({ claim }) => !young.has(claim.uid));
    const uids = new Set(stale.map(({ claim }) => claim.uid));
    const trace = traceOf(caller, clock.now());
    if (!input.dryRun) {
      const volumes = new Map(stale.map(({ volume }) => [volumeKey(volume), volume])).values();
      await releaseWholeSets(records, volumes, ({ uid }) => uids.has(uid), trace, { by: caller }); // R2, R4
    }
    return {
      released: stale.slice(0, shown).map(staleClaim),
      releasedCount: stale.length,
      liveCount: live,
      youngerCount: found.length - stale.length,
      releasingCount: releasing,
    };
  },
});
