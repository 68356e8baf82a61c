import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { countedSlots } from "../../domain/attachment/attach-pool.ts";
import { limits } from "../../domain/limits.ts";
import type { VolumeRecord, VolumeRef } from "../../domain/volume/volume.ts";
import { volumeKey } from "../../domain/volume/volume.ts";
import type { NodeView } from "../../ports.ts";
import { createGrantFacts } from "../../records/grant-facts.ts";
import { nodeJudgement } from "../../records/node-judgement.ts";
import type { VersionedVolume } from "../../records/record-cache.ts";
import type { ChangeOptions, Expects } from "../../records/volume/change-options.ts";
import type { ChangeResult, DecideMany } from "../../records/volume/volume-decisions.ts";
import type { CommandDeps } from "../command-deps.ts";
import { claimExists, nodeNotFound } from "../errors.ts";
import type { Caller, ClaimView, Commands } from "../model.ts";
import { livingView, selectViews, volumesOfWorkload } from "./claim-views.ts";
import { withClaimVolumes } from "./claim-volumes.ts";
import { type ClaimOrder, decideClaims, type WantedClaim } from "./decide-claims.ts";
import { validateCreateClaims } from "./validate-claims.ts";

/** Later requests sort later, on every volume alike; the uuid makes ties impossible. */
const ticketAt = (now: number, uuid: string): string => `${now.toString(36).padStart(10, "0")}-${uuid}`;

/** An alias is one claim of a workload, whatever the volume: the first of these that has one already, for another volume. */
const takenAlias = (order: ClaimOrder, volumes: readonly VersionedVolume[]) => {
  const volumeOf = new Map(order.wanted.map((w) => [w.alias, w.ref.id]));
  for (const { volume } of volumes)
    for (const claim of Object.values(volume.claims)) {
      const wanted =
        claim.workload === order.workload && claim.goal === "active" ? volumeOf.get(claim.alias) : undefined;
      if (wanted !== undefined && wanted !== volume.id) return { claim, volume };
    }
  return undefined;
};

/**
 * Stores the decision, and sees to it that no alias has claims on two volumes. That the workload has claims on no other volume is
 * compared by the commit itself; the store is asked for them only when it has, or when nothing is written.
 */
const storeOrder = async (
  { records }: CommandDeps,
  namespace: string,
  order: ClaimOrder,
  refs: readonly VolumeRef[],
  decide: DecideMany,
  options: ChangeOptions,
): Promise<readonly ChangeResult[]> => {
  const { workload } = order;
  const wanted = new Set(refs.map(volumeKey));
  const others = records.knownOf(namespace, workload).some(({ volume }) => !wanted.has(volumeKey(volume)));
  const results = others ? undefined : await records.changeAlone({ namespace, workload }, refs, decide, options);
  if (results?.some(({ changed }) => changed)) return results;
  const taken = takenAlias(order, await volumesOfWorkload(records, namespace, workload));
  if (taken !== undefined) throw claimExists(taken.claim, taken.volume, "volume");
  return results ?? (await records.changeMany(refs, decide, options));
};

/** One decision is made over one view. */
const onceEach = <T>(ask: (key: string) => T): ((key: string) => T) => {
  const known = new Map<string, T>();
  return (key) => {
    const found = known.get(key) ?? ask(key);
    known.set(key, found);
    return found;
  };
};

const stateOfNode = ({ record, live }: NodeView): string => {
  if (live === "suspect") return "SUSPECT";
  return record.state === "READY" && record.drain !== undefined ? "DRAINED" : record.state;
};

/** The order was stored by a commit whose answer was lost, and a claim of it is over since then. */
class OrderOverError extends Error {}

/**
 * A uid never lives twice. Where an answer of the store was lost, the claims may have been made, used and ended through other controllers
 * before this one decides anew.
 */
const oneLife = ({ records }: CommandDeps, order: ClaimOrder, expects: Expects): Expects => {
  const { workload, wanted } = order;
  let first = true;
  const isOver = async ({ ref: { namespace, id }, alias, uid }: WantedClaim): Promise<boolean> =>
    (await records.ended({ namespace, volume: id, workload, alias, uid })) !== undefined;
  return async () => {
    if (!first && (await Promise.all(wanted.map(isOver))).includes(true)) throw new OrderOverError();
    first = false;
    return await expects();
  };
};

/** The whole set in one commit over all its volumes, or nothing (and an error that says why). */
export const placeOrder = async (
  deps: CommandDeps,
  namespace: string,
  order: ClaimOrder,
  caller: Caller,
): Promise<readonly ClaimView[]> => {
  const { nodes, records } = deps;
  const node = nodes.get(order.node);
  if (node === undefined) throw nodes.damage?.(order.node) ?? nodeNotFound(order.node);
  const factsOf = createGrantFacts(deps);
  const refs: readonly VolumeRef[] = [...new Map(order.wanted.map((w) => [volumeKey(w.ref), w.ref])).values()];
  let uids: readonly string[] = [];
  const judged = nodeJudgement(nodes, order.node);
  const options = { by: { who: caller.who, why: caller.why }, expects: oneLife(deps, order, judged.expects) };
  const decide: DecideMany = (volumes, at) => {
    judged.look();
    const byKey = new Map<string, VolumeRecord | undefined>(refs.map((ref, i) => [volumeKey(ref), volumes[i]]));
    const facts = onceEach((plugin) => factsOf(plugin, order.node));
    const decision = decideClaims(byKey, order, { facts, nodeState: stateOfNode(nodes.get(order.node) ?? node) }, at);
    uids = decision.uids;
    return refs.map((ref) => decision.changes.get(volumeKey(ref)));
  };
  const stored = async (): Promise<readonly ChangeResult[]> => {
    try {
      return await storeOrder(deps, namespace, order, refs, decide, options);
    } catch (error) {
      if (!isHoldfastError(error) || error.reason !== "ATTACH_LIMIT") throw error;
      // Another controller may have freed a slot that is not known of here yet.
      const plugin = error.metadata["plugin"] ?? "";
      await records.slots.recount(countedSlots(plugin, order.node, records.attachLimit(plugin, order.node).pool));
      return await storeOrder(deps, namespace, order, refs, decide, options);
    }
  };
  const results = await stored().catch((error: unknown) => {
    if (error instanceof OrderOverError) return undefined;
    throw error;
  });
  if (results === undefined) {
    const claimUids = order.wanted.map(({ uid }) => uid);
    return await selectViews({ records, factsOf }, { namespace, workload: order.workload, aliases: [], claimUids });
  }
  const living = new Map(
    results.flatMap((result) => {
      const { volume, rev } = result;
      return volume === null
        ? []
        : uids.flatMap((uid) => {
            const claim = volume.claims[uid];
            return claim === undefined ? [] : [[uid, livingView({ volume, rev }, claim, factsOf)] as const];
          });
    }),
  );
  return uids.flatMap((uid) => living.get(uid) ?? []);
};

export const traceOf = (caller: Caller, now: number): ClaimOrder["trace"] =>
  caller.traceparent === undefined ? undefined : { parent: caller.traceparent, at: now };

export const createClaimsCommand =
  (deps: CommandDeps): Commands["createClaims"] =>
  async (input, caller) => {
    const { clock, ids } = deps;
    validateCreateClaims(input, deps.secrets.granted);
    const now = clock.now();
    const wanted: readonly WantedClaim[] = input.claims.map((spec) => ({
      ref: { namespace: input.namespace, id: spec.volume },
      alias: spec.alias === "" ? spec.volume : spec.alias,
      capability: spec.capability,
      readOnly: spec.readOnly,
      uid: ids.uuid(),
    }));
    const order: ClaimOrder = {
      workload: input.workload,
      node: input.node,
      wanted,
      requestId: input.requestId,
      ticket: newTicket(deps, now),
      queue: input.queue.enabled,
      queueDeadline: now + (input.queue.deadlineMs ?? limits.defaultQueueMs),
      after: input.after ?? [],
      trace: traceOf(caller, now),
    };
    return await withClaimVolumes(deps, input, caller, () => placeOrder(deps, input.namespace, order, caller));
  };

export const newTicket = (deps: CommandDeps, now: number): string => ticketAt(now, deps.ids.uuid());
