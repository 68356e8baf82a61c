import { fenceCommand } from "@holdfast/model/operator-command";
import { HoldfastError, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import { foreignBlock } from "../../domain/attachment/foreign-block.ts";
import { blockOfClaim } from "../../domain/claim/claim.ts";
import { checkId, limits, type Violation } from "../../domain/limits.ts";
import type { NodeDrain } from "../../domain/node/node.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import type { NodeDecisions, Nodes, NodeView, PluginProfiles } from "../../ports.ts";
import type { AuditRecords } from "../../records/audit-records.ts";
import { createGrantFacts, type GrantFactsOf } from "../../records/grant-facts.ts";
import { volumesOnNode } from "../../records/volume/volumes-on-node.ts";
import { waitingFor } from "../claim/waiting-for.ts";
import type { CommandDeps } from "../command-deps.ts";
import { nodeNotFound } from "../errors.ts";
import type { DrainNodeInput, DrainView, NodeCommands, RemainingClaim, UndrainNodeInput } from "./node-model.ts";

export interface NodeCommandDeps extends CommandDeps {
  readonly nodes: Nodes & NodeDecisions;
  readonly audit: Pick<AuditRecords, "newId" | "ofRequest">;
  readonly profiles: Pick<PluginProfiles, "of">;
}

const reasonBytes = 512;

export const checkReason = (reason: string): readonly Violation[] =>
  reason.length > reasonBytes ? [{ field: "reason", description: `is longer than ${reasonBytes} characters` }] : [];

const refuse = (violations: readonly Violation[]): void => {
  if (violations.length > 0) throw invalidArgument(violations);
};

export const validateDrain = ({ name, reason, deadlineMs }: DrainNodeInput): void =>
  refuse([
    ...checkId("name", name),
    ...checkReason(reason),
    ...(deadlineMs === undefined || (deadlineMs > 0 && deadlineMs <= limits.queueMs)
      ? []
      : [{ field: "deadline", description: "must be above zero and at most 7 days" }]),
  ]);

export const validateUndrain = ({ name, reason }: UndrainNodeInput): void =>
  refuse([...checkId("name", name), ...checkReason(reason)]);

/** What a volume still has on the node. Bars and attachments are told apart only where no claim stands for them. */
const remainingOf = (volume: VolumeRecord, node: string, factsOf: GrantFactsOf): readonly RemainingClaim[] => {
  const here = Object.values(volume.claims).filter((claim) => claim.node === node && claim.state !== "QUEUED");
  const named = { namespace: volume.namespace, volume: volume.id, plugin: volume.plugin };
  if (here.length > 0)
    return here.map((claim) => ({
      ...named,
      workload: claim.workload,
      alias: claim.alias,
      uid: claim.uid,
      state: claim.state,
      stateSince: claim.stateSince,
      waitingFor:
        claim.goal === "active" && claim.state === "ACTIVE"
          ? `workload ${claim.workload} to be stopped and released`
          : waitingFor(volume, claim, () => factsOf(volume.plugin, node)),
      blocked: blockOfClaim(claim),
      lastError: claim.attempts.lastError,
    }));
  const nobody = { ...named, workload: "", alias: "", uid: "", stateSince: undefined, blocked: volume.blocked };
  const attachment = volume.attachments[node];
  const foreign = volume.foreign?.find((one) => one.node === node);
  const bar = volume.bars.find((one) => one.node === node);
  return [
    ...(attachment === undefined
      ? []
      : [
          {
            ...nobody,
            state: attachment.state,
            waitingFor: "its detach, which is owed",
            lastError: volume.attempts.lastError,
          },
        ]),
    ...(foreign === undefined
      ? []
      : [
          {
            ...nobody,
            state: "FOREIGN",
            waitingFor: `node ${node} to hold it no more: the store does not know this claim`,
            blocked: foreignBlock(volume, foreign),
            lastError: undefined,
          },
        ]),
    ...(bar === undefined
      ? []
      : [{ ...nobody, state: "BARRED", waitingFor: `an old call of ${bar.issuer} to be over`, lastError: undefined }]),
  ];
};

const shown = 500;

export const drainViewOf = async (deps: NodeCommandDeps, node: NodeView): Promise<DrainView> => {
  const { name, plugins } = node.record;
  const factsOf = createGrantFacts(deps);
  const remaining: RemainingClaim[] = [];
  let remainingCount = 0;
  let queuedCount = 0;
  for await (const { volume } of volumesOnNode(deps.records, name, true)) {
    const found = remainingOf(volume, name, factsOf);
    remainingCount += found.length;
    remaining.push(...found.slice(0, Math.max(0, shown - remaining.length)));
    queuedCount += Object.values(volume.claims).filter((c) => c.node === name && c.state === "QUEUED").length;
  }
  const stage = remainingCount > 0 ? "CLAIMS" : plugins.length > 0 ? "PLUGINS" : "DONE";
  return { node, stage, remaining, remainingCount, queuedCount };
};

const drainFrom = (input: DrainNodeInput, before: NodeDrain | undefined, now: number): NodeDrain => {
  const { reason, mode, deadlineMs } = input;
  // The same again, as after a lost answer, does not put its time off.
  if (before?.reason === reason && before.mode === mode && before.within === deadlineMs) return before;
  return {
    since: before?.since ?? now,
    reason,
    mode,
    ...(deadlineMs === undefined ? {} : { deadline: now + deadlineMs, within: deadlineMs }),
  };
};

/** Closes and opens nodes. Only what is wanted is stored here: whoever grants reads it, and the keeper of drains follows it. */
export const createDrainCommands = (
  deps: NodeCommandDeps,
): Pick<NodeCommands, "drainNode" | "undrainNode" | "drainView"> => {
  const { nodes, clock } = deps;
  return {
    async drainNode(input, { who, why }) {
      validateDrain(input);
      const node = await nodes.change(input.name, (record) => {
        const drain = drainFrom(input, record.drain, clock.now());
        if (drain === record.drain) return record;
        return { ...record, drain, changedBy: { who, why, at: clock.now() } };
      });
      if (node === undefined) throw nodeNotFound(input.name);
      return await drainViewOf(deps, node);
    },

    async undrainNode(input, { who, why }) {
      validateUndrain(input);
      const node = await nodes.change(input.name, (record) => {
        if (record.drain === undefined) return record;
        const { drain: _over, ...open } = record;
        const text = input.reason === "" ? why : `${why}: ${input.reason}`;
        return { ...open, changedBy: { who, why: text, at: clock.now() } };
      });
      if (node === undefined) throw nodeNotFound(input.name);
      return node;
    },

    async drainView(name) {
      refuse(checkId("name", name));
      const node = nodes.get(name);
      if (node === undefined) throw nodes.damage?.(name) ?? nodeNotFound(name);
      return await drainViewOf(deps, node);
    },
  };
};

/** For the forgetting of nodes: what stands in the way, as an error. */
export const nodeInUse = ({ node, remaining, remainingCount, queuedCount }: DrainView): HoldfastError => {
  const [first] = remaining;
  const what = first === undefined ? "" : `: volume ${first.namespace}/${first.volume} (${first.state})`;
  return new HoldfastError({
    kind: "precondition",
    reason: "NODE_IN_USE",
    message: `node ${node.record.name} still has ${remainingCount} claims and attachments, and ${queuedCount} claims wait for it${what}; release them; if the node is off: ${fenceCommand(node.record.name)}`,
    metadata: { node: node.record.name, namespace: first?.namespace ?? "", volume: first?.volume ?? "" },
  });
};
