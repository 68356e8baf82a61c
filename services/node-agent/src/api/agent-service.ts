/** What controllers ask of this host. */
import type { Vetting } from "@holdfast/model/vetting";
import { waitFor } from "@holdfast/shared/async/signals";
import { HoldfastError, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import type {
  AgentServiceDefinition,
  InventoryResponse,
  QuiesceRequest,
  RelayRequest,
  RelayStreamRequest,
} from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import type { DeepPartial } from "@holdfast/shared/gen/holdfast/v1/common";
import type { CallContext, Implementation } from "@holdfast/shared/grpc/call-context";
import type { Identity } from "@holdfast/shared/grpc/identity";
import type { ExpandResult, Inventory, PublishResult, ReleaseResult } from "../domain/answer-types.ts";
import { judgePromise, promisedOf } from "../domain/promise.ts";
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
import { callOrder, type QuiesceOrder, quiesceOrder, type RelayOrder, relayOrder } from "./convert-relay.ts";
import { promiseAsked } from "./convert-vetting.ts";

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
  /** NodePublishVolume may have other tokens or secrets to carry: the publications of the subject are repeated. */
  readonly renew: (subject: { readonly plugin: string } | { readonly volumeUid: string }) => void;
  readonly relay: {
    unary(order: RelayOrder, signal: AbortSignal): Promise<RelayEnd>;
    stream(order: RelayOrder, signal: AbortSignal): AsyncIterable<RelayEnd>;
    quiesce(asked: QuiesceOrder, signal: AbortSignal): Promise<QuiesceEnd>;
    openCalls(): readonly {
      readonly plugin: string;
      readonly subject: string;
      readonly words: string;
      readonly opId: string;
    }[];
  };
  readonly now: () => Date;
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
  const { node, volumes, stats, ledger, scope, startingBecause, onDoubt, renew, relay, now } = options;

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
  /** The first order of a higher generation is a promise of it: from then on what was decided before comes too late. */
  const promise = (asked: Vetting): Promise<void> | undefined => {
    const known = promisedOf(ledger.agent());
    const judged = judgePromise(known, asked);
    if (judged.kind === "leap") throw epochLeap(judged.why, asked.gen, known.gen);
    return judged.kind === "known" ? undefined : ledger.commitAgent({ type: "promised-gen", ...asked });
  };
  /** In this very turn where nothing is to be promised: who gives up an order finds it begun or not, and never in between. */
  const under = <T>(vetting: Vetting | undefined, act: () => Promise<T>): Promise<T> => {
    const made = vetting && promise(vetting);
    return made === undefined ? act() : made.then(act);
  };
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
      const result = await under(order.vetting, () => volumes.publish(order, context.signal));
      return publishMessage(doubted(result), scope, now());
    },

    async release(request, context) {
      ready(context);
      const { node: wanted, order } = releaseFrom(request);
      meant(wanted);
      const result = await under(order.vetting, () => volumes.release(order, context.signal));
      return releaseMessage(doubted(result), scope, now());
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
        vettingUid: agent.promisedTo,
      };
      yield { header } satisfies DeepPartial<InventoryResponse>;
      const at = now();
      for (const volume of known) yield inventoryVolumeMessage(volume, at);
      for (const { path, mountId } of orphans) yield { orphan: { path, mountId: BigInt(mountId) } };
      // What lies behind the damage is not known: all that can be told, and no end, so that nobody takes it for everything.
      if (ledger.damage !== undefined) return;
      yield { end: { volumes: known.length, orphans: orphans.length } };
    },

    async raiseFloor(request, context) {
      allowed(context);
      await promise(promiseAsked(request));
      const { gen, uid } = promisedOf(ledger.agent());
      return { promisedGen: BigInt(gen), vettingUid: uid, openCalls: [...relay.openCalls()] };
    },

    async relay(request, context) {
      meantCall(request, context);
      const order = callOrder(request.order);
      const gate = request.gate === "" ? undefined : request.gate;
      const call = relayOrder(request, context);
      return await under(call.vetting, () => relay.unary({ ...call, order, gate }, context.signal));
    },

    async *relayStream(request, context) {
      meantCall(request, context);
      yield* relay.stream(relayOrder(request, context), context.signal);
    },

    async quiesce(request, context) {
      meantCall(request, context);
      const asked = quiesceOrder(request, context);
      const { doubt = false, ...end } = await under(asked.vetting, () => relay.quiesce(asked, context.signal));
      return { ...end, inDoubt: doubt };
    },

    async renew({ plugin, volumeUid }, context) {
      ready(context);
      if ((plugin === "") === (volumeUid === "")) {
        const description = "either it or volume_uid is required, and not both";
        throw invalidArgument([{ field: "plugin", description }]);
      }
      renew(plugin === "" ? { volumeUid } : { plugin });
      return {};
    },

    async expand(request, context) {
      ready(context);
      const { node: wanted, order } = expandFrom(request);
      meant(wanted);
      const result = await under(order.vetting, () => volumes.expand(order, context.signal));
      return expandMessage(doubted(result), now());
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
