/**
 * Passes a controller's CSI call to a plugin of this host, bytes in and bytes out.
 *
 * L1 A call that changes something and is meant for another life of this agent reaches no plugin: the call was held on its way.
 * L2 A subject is told to be quiet by the life that was asked, and by no other.
 */
import type { CallOptions } from "@holdfast/csi/csi-caller";
import { type CsiMethod, methodOf, methods, type UnaryMethod } from "@holdfast/csi/methods";
import type { Quiesced } from "@holdfast/csi/open-calls";
import { type CallOutcome, codes } from "@holdfast/csi/outcome";
import type { PluginCall, PluginDirectory } from "@holdfast/csi/plugin-directory";
import type { CallOrder, CommitOrder } from "@holdfast/model/call-order";
import type { Vetting } from "@holdfast/model/vetting";
import { HoldfastError, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import { whyOutdated } from "../domain/promise.ts";
import type { NodeMethod } from "../ports.ts";

export interface RelayedCall {
  readonly plugin: string;
  readonly method: string;
  readonly request: Uint8Array;
  /** The caller's own time; 0: as the method's policy says. */
  readonly deadlineMs: number;
  /** What the store of whoever asks was vetted as. */
  readonly vetting: Vetting;
  /** undefined: a controller of an earlier version, or a call that changes nothing. */
  readonly order?: CallOrder | undefined;
  /** The life of the agent that is meant; undefined: a controller of an earlier version. */
  readonly gate?: string | undefined;
}

export interface QuiesceCall {
  readonly plugin: string;
  readonly gate: string;
  readonly subject: string;
  readonly order: CommitOrder;
  /** As of a call. */
  readonly vetting: Vetting;
  readonly waitMs: number;
}

export type RelayedEnd =
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

export interface Relay {
  unary(call: RelayedCall, signal: AbortSignal): Promise<RelayedEnd>;
  /** A failure is the last item. Nothing is sent before the first item is asked for. */
  stream(call: RelayedCall, signal: AbortSignal): AsyncIterable<RelayedEnd>;
  quiesce(call: QuiesceCall, signal: AbortSignal): Promise<Quiesced>;
  /** Those of controllers that may be open at plugins of this host. */
  openCalls(): readonly PluginCall[];
}

export interface RelayOptions {
  readonly directory: Pick<PluginDirectory, "get" | "quiesce" | "openCalls">;
  readonly node: string;
  /** This process, as it registers. */
  readonly life: string;
  /** What this agent has promised: a controller with an older store must not change a backend through it either. */
  readonly promised: () => Vetting;
  readonly log: Logger;
}

export function createRelay({ directory, node, life, promised, log }: RelayOptions): Relay {
  const checkVetting = ({ plugin, vetting }: Pick<RelayedCall, "plugin" | "vetting">): void => {
    const known = promised();
    const why = whyOutdated(known, vetting);
    if (why === undefined) return;
    throw new HoldfastError({
      kind: "precondition",
      reason: "GENERATION",
      message: `the call to plugin ${plugin} did not reach it: ${why}; the store of this controller is not the one that its agents know: vet it`,
      metadata: { plugin, gen: String(vetting.gen), promised: String(known.gen) },
    });
  };

  /**
   * A node half is never asked for the other half's calls, also while that one is not there or not known yet: its UNIMPLEMENTED would
   * pass for the final answer of a call that is open at the controller half.
   */
  const halfFor = (plugin: string, method: CsiMethod): ReturnType<PluginDirectory["get"]> => {
    const found = directory.get(plugin);
    const { service } = methods[method];
    return found?.role === "node" && service !== "Node" && service !== "Identity" ? undefined : found;
  };

  const made = async (call: RelayedCall, signal: AbortSignal): Promise<RelayedEnd> => {
    checkVetting(call);
    const method = methodOf(call.method);
    if (method === undefined || !isUnaryMethod(method)) throw wrongMethod(`${call.method} is no unary method of CSI`);
    if (kept.has(method)) {
      throw wrongMethod(`${call.method} is the agent's own: it makes it by itself, one at a time for each volume`);
    }
    const connection = halfFor(call.plugin, method);
    if (connection === undefined) return pluginAway(call.plugin);
    const { order, gate } = call;
    if (gate !== undefined && gate !== life) return otherLife(gate, life); // L1
    const options = { signal, order, ...within(call.deadlineMs, "deadlineMs") };
    return endOf(await connection.relay(method, call.request, options));
  };

  return {
    async unary(call, signal) {
      const end = await made(call, signal);
      // Its controller may be gone, and then nobody else tells of it.
      if ("failure" in end && end.failure.staleOrder)
        log.info("a late call was refused as overtaken", {
          plugin: call.plugin,
          method: call.method,
          why: end.failure.message,
        });
      return end;
    },

    async *stream(call, signal) {
      checkVetting(call);
      const method = methodOf(call.method);
      if (method === undefined || isUnaryMethod(method)) throw wrongMethod(`${call.method} is no stream of CSI`);
      const connection = halfFor(call.plugin, method);
      if (connection === undefined) {
        yield pluginAway(call.plugin);
        return;
      }
      const options = { signal, ...within(call.deadlineMs, "totalMs") };
      for await (const item of connection.relayStream(method, call.request, options)) yield endOf(item);
    },

    async quiesce({ plugin, gate, subject, order, vetting, waitMs }, signal) {
      if (gate !== life)
        throw new HoldfastError({
          kind: "precondition",
          reason: "GATE_LIFE",
          message: `life ${gate} of the agent of node ${node} was asked to let go of ${subject}, and this is life ${life}: it knows nothing of the calls of the other one`,
          metadata: { node, life, wanted: gate },
        }); // L2
      checkVetting({ plugin, vetting });
      return directory.quiesce(plugin, subject, order, waitMs, signal);
    },

    openCalls: directory.openCalls,
  };
}

/** Undefined values would stand for a deadline of their own. */
const within = (ms: number, field: "deadlineMs" | "totalMs"): Pick<CallOptions, typeof field> =>
  ms > 0 ? { [field]: ms } : {};

function endOf(outcome: CallOutcome<Uint8Array>): RelayedEnd {
  if (outcome.outcome === "done") return { response: outcome.value };
  const { code, message, sent, answered = false, stale = false } = outcome.failure;
  return { failure: { code: codes.indexOf(code), message, notSent: !sent, answered, staleOrder: stale } };
}

const pluginAway = (plugin: string): RelayedEnd => ({
  failure: {
    code: codes.indexOf("UNAVAILABLE"),
    message: `plugin ${plugin} is not on this host`,
    notSent: true,
    answered: false,
    staleOrder: false,
  },
});

const otherLife = (meant: string, life: string): RelayedEnd => ({
  failure: {
    code: codes.indexOf("ABORTED"),
    message: `the call is for life ${meant} of the agent, and this is life ${life}`,
    notSent: true,
    answered: false,
    staleOrder: true,
  },
});

const wrongMethod = (description: string): HoldfastError => invalidArgument([{ field: "method", description }]);

/** What a mount comes, grows and goes by never passes the journal and the volume's lane by (I4). */
const kept: ReadonlySet<CsiMethod> = new Set<NodeMethod>([
  "NodeStageVolume",
  "NodePublishVolume",
  "NodeUnpublishVolume",
  "NodeUnstageVolume",
  "NodeExpandVolume",
]);

const isUnaryMethod = (method: CsiMethod): method is UnaryMethod => methods[method].kind !== "stream";
