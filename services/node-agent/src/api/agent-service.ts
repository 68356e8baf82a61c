/** What controllers ask of this host. */
import { msOfDuration } from "@holdfast/model/wire-duration";
import { waitFor } from "@holdfast/shared/async/signals";
import { HoldfastError, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import type {
  AgentServiceDefinition,
  CallOrder,
  InventoryResponse,
  QuiesceRequest,
  RelayRequest,
  RelayStreamRequest,
} from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import type { DeepPartial } from "@holdfast/shared/gen/holdfast/v1/common";
import type { CallContext, Implementation } from "@holdfast/shared/grpc/call-context";
import type { Identity } from "@holdfast/shared/grpc/identity";
import type { ExpandResult, Inventory, PublishResult, ReleaseResult } from "../domain/answer-types.ts";
import { leapOfGeneration } from "../domain/epoch-steps.ts";
import type { ExpandOrder, VolumeMeasure } from "../domain/volume-figures.ts";
import type { Ledger, MountTable, PermitOrder, ReleaseOrder } from "../ports.ts";
import {
  inventoryVolumeMessage,
  permitFrom,
  publishMessage,
  releaseFrom,
  releaseMessage,
  scopeMessage,
} from "./convert.ts";
import { expandFrom, expandMessage, statsFrom, statsMessage } from "./convert-figures.ts";
import { safeNumber } from "./convert-words.ts";

export interface AgentServiceOptions {
  readonly node: string;
  readonly volumes: {
    publish(order: PermitOrder, caller: AbortSignal): Promise<PublishResult>;
    release(order: ReleaseOrder, caller: AbortSignal): Promise<ReleaseResult>;
    expand(order: ExpandOrder, caller: AbortSignal): Promise<ExpandResult>;
    inventory(): Promise<Inventory>;
  };
  readonly ledger: Pick<Ledger, "uid" | "agent" | "commitAgent" | "damage">;
  readonly scope: MountTable["scope"];
  /** Why no order is taken yet, or undefined. */
  readonly startingBecause: () => string | undefined;
  /** An order was refused for the node's epoch or its quarantine: the controllers may know something newer. */
  readonly onDoubt: () => void;
  readonly stats: {
    volumeStats(volumeUid: string): Promise<VolumeMeasure | undefined>;
    published(): readonly string[];
  };
  readonly relay: {
    unary(order: RelayOrder, signal: AbortSignal): Promise<RelayEnd>;
    stream(order: RelayOrder, signal: AbortSignal): AsyncIterable<RelayEnd>;
    quiesce(asked: QuiesceOrder, signal: AbortSignal): Promise<QuiesceEnd>;
  };
  readonly now: () => Date;
}

export interface RelayOrder {
  readonly plugin: string;
  readonly method: string;
  readonly request: Uint8Array;
  /** 0: as the method's policy says. */
  readonly deadlineMs: number;
  readonly gen: number;
  /** Of calls that change something, since controllers say it. */
  readonly order?:
    | { readonly gen: number; readonly sequence: number; readonly opId: string; readonly knownAs: readonly string[] }
    | undefined;
  /** The life of this agent that is meant, since controllers say it. */
  readonly gate?: string | undefined;
}

export interface QuiesceOrder {
  readonly plugin: string;
  readonly gate: string;
  readonly subject: string;
  readonly order: { readonly gen: number; readonly sequence: number };
  readonly waitMs: number;
}

interface QuiesceEnd {
  readonly idle: boolean;
  readonly words?: string;
  readonly superseded?: boolean;
  readonly doubt?: boolean;
}

export type RelayEnd =
  | { readonly response: Uint8Array }
  | {
      readonly failure: {
        readonly code: number;
        readonly message: string;
        readonly notSent: boolean;
        readonly answered: boolean;
        readonly staleOrder: boolean;
      };
    };

const maxOpId = 128;
const maxSubject = 1_024;
const maxQuiesceMs = 10_000;

/** Without certificates a controller may be unnamed; what names itself as something else is not one. */
const orderers: Readonly<Record<Identity["role"], boolean>> = {
  controller: true,
  local: true,
  anonymous: true,
  node: false,
  scheduler: false,
  operator: false,
  monitor: false,
};

export function createAgentService(options: AgentServiceOptions): Implementation<typeof AgentServiceDefinition> {
  const { node, volumes, stats, ledger, scope, startingBecause, onDoubt, relay, now } = options;

  const allowed = ({ identity }: CallContext): void => {
    if (orderers[identity.role]) return;
    throw new HoldfastError({
      kind: "permission",
      reason: "PERMISSION_DENIED",
      message: `the agent of node ${node} takes orders from controllers only, not from a ${identity.role}`,
    });
  };
  const ready = (context: CallContext): void => {
    allowed(context);
    const why = startingBecause();
    if (why === undefined) return;
    const message = `the agent of node ${node} takes no orders yet: ${why}`;
    throw new HoldfastError({ kind: "unavailable", reason: "AGENT_STARTING", message, metadata: { node } });
  };
  const epochLeap = (why: string, gen: number, promised: number): HoldfastError =>
    new HoldfastError({
      kind: "precondition",
      reason: "EPOCH_LEAP",
      message: `the agent of node ${node} does not promise it: ${why}. Nothing was journalled; look at who sent it, and compare with the generation of the store`,
      metadata: { node, gen: String(gen), promised: String(promised) },
    });
  const meant = (wanted: string): void => {
    if (wanted === node) return;
    const message = `the order is for node ${wanted}, this is ${node}: correct the address of ${wanted}`;
    throw new HoldfastError({ kind: "precondition", reason: "NODE_MISMATCH", message, metadata: { node, wanted } });
  };

  /** A pending clone of a node, or a host that has come to the address of another one, makes no call: its answer would end the call. */
  const meantCall = (request: RelayRequest | RelayStreamRequest | QuiesceRequest, context: CallContext): void => {
    ready(context);
    // Controllers of an earlier version name no node.
    if (request.node !== "") meant(request.node);
  };

  const doubted = <Result extends PublishResult | ReleaseResult | ExpandResult>(result: Result): Result => {
    if (result.kind === "refused" && (result.reason === "NODE_EPOCH" || result.reason === "QUARANTINED")) onDoubt();
    return result;
  };

  return {
    async publish(request, context) {
      ready(context);
      const { node: wanted, order } = permitFrom(request);
      meant(wanted);
      return publishMessage(doubted(await volumes.publish(order, context.signal)), scope, now());
    },

    async release(request, context) {
      ready(context);
      const { node: wanted, order } = releaseFrom(request);
      meant(wanted);
      return releaseMessage(doubted(await volumes.release(order, context.signal)), scope);
    },

    async *inventory(_request, context) {
      allowed(context);
      const agent = ledger.agent();
      const { volumes: known, orphans } = await volumes.inventory();
      const header = {
        node,
        journalUid: ledger.uid,
        nodeEpoch: BigInt(agent.nodeEpoch),
        bootId: agent.bootId,
        verificationScope: scopeMessage(scope),
        promisedGen: BigInt(agent.promisedGen),
      };
      yield { header } satisfies DeepPartial<InventoryResponse>;
      const at = now();
      for (const volume of known) yield inventoryVolumeMessage(volume, at);
      for (const { path, mountId } of orphans) yield { orphan: { path, mountId: BigInt(mountId) } };
      // What lies behind the damage is not known: all that can be told, and no end, so that nobody takes it for everything.
      if (ledger.damage !== undefined) return;
      yield { end: { volumes: known.length, orphans: orphans.length } };
    },

    async raiseFloor({ promisedGen }, context) {
      allowed(context);
      const gen = safeNumber(promisedGen);
      if (gen < 0) throw invalidArgument([{ field: "promised_gen", description: "has to be from 0 to 2^53 - 1" }]);
      const known = ledger.agent().promisedGen;
      const leap = leapOfGeneration(known, gen);
      if (leap !== undefined) throw epochLeap(leap, gen, known);
      if (gen > known) await ledger.commitAgent({ type: "promised-gen", gen });
      return { promisedGen: BigInt(ledger.agent().promisedGen) };
    },

    async relay(request, context) {
      meantCall(request, context);
      const order = callOrder(request.order);
      const gate = request.gate === "" ? undefined : request.gate;
      return await relay.unary({ ...relayOrder(request, context), order, gate }, context.signal);
    },

    async *relayStream(request, context) {
      meantCall(request, context);
      yield* relay.stream(relayOrder(request, context), context.signal);
    },

    async quiesce(request, context) {
      meantCall(request, context);
      const { doubt = false, ...end } = await relay.quiesce(quiesceOrder(request, context), context.signal);
      return { ...end, inDoubt: doubt };
    },

    async expand(request, context) {
      ready(context);
      const { node: wanted, order } = expandFrom(request);
      meant(wanted);
      return expandMessage(doubted(await volumes.expand(order, context.signal)), now());
    },

    async stats(request, context) {
      allowed(context);
      const uids = statsFrom(request) ?? stats.published();
      const measured = await Promise.all(
        uids.map(async (uid) => statsMessage(uid, await waitFor(stats.volumeStats(uid), context.signal), now())),
      );
      return { volumes: measured };
    },
  };
}

/** Numbers beyond what can be counted with here would stand for one another. */
function callOrder(order: CallOrder | undefined): RelayOrder["order"] {
  if (order === undefined) return undefined;
  const { opId, knownAs } = order;
  const [gen, sequence] = [safeNumber(order.gen), safeNumber(order.sequence)];
  if (gen < 0 || sequence < 0 || opId === "" || opId.length > maxOpId)
    throw invalidArgument([
      {
        field: "order",
        description: `has to name an operation in at most ${maxOpId} bytes, by numbers up to 2^53 - 1`,
      },
    ]);
  if (knownAs.length > 2 || knownAs.some((one) => one.length > maxSubject))
    throw invalidArgument([{ field: "order", description: `has two subjects at most, of ${maxSubject} bytes` }]);
  return { gen, sequence, opId, knownAs };
}

/** The plugin is told the caller's own time, or less if that was asked for. */
function relayOrder(request: RelayRequest | RelayStreamRequest, context: CallContext): RelayOrder {
  const { plugin, method, deadline } = request;
  const asked = deadline === undefined ? 0 : (msOfDuration(deadline) ?? 0);
  const left = context.remainingMs();
  const deadlineMs = asked > 0 ? Math.min(asked, left) : Number.isFinite(left) ? left : 0;
  return { plugin, method, request: request.request, deadlineMs, gen: Number(request.gen) };
}

function quiesceOrder(request: QuiesceRequest, context: CallContext): QuiesceOrder {
  const { node, plugin, gate, subject, wait } = request;
  const [gen, sequence] = [safeNumber(request.gen), safeNumber(request.sequence)];
  const waitMs = wait === undefined ? 0 : msOfDuration(wait);
  const violations = [
    ...Object.entries({ node, plugin, gate, subject }).flatMap(([field, value]) =>
      value === "" ? [{ field, description: "has to be named" }] : [],
    ),
    ...(subject.length > maxSubject ? [{ field: "subject", description: `has at most ${maxSubject} bytes` }] : []),
    ...Object.entries({ gen, sequence }).flatMap(([field, value]) =>
      value < 0 ? [{ field, description: "has to be from 0 to 2^53 - 1" }] : [],
    ),
    ...(waitMs === undefined || waitMs < 0 || waitMs > maxQuiesceMs
      ? [{ field: "wait", description: `has to be from 0 to ${maxQuiesceMs} ms` }]
      : []),
  ];
  if (violations.length > 0) throw invalidArgument(violations);
  return { plugin, gate, subject, order: { gen, sequence }, waitMs: Math.min(waitMs ?? 0, context.remainingMs()) };
}
