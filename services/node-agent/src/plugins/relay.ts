/** Passes a controller's CSI call to a plugin of this host, bytes in and bytes out. */
import type { CallOptions } from "@holdfast/csi/csi-caller";
import { type CsiMethod, methodOf, methods, type UnaryMethod } from "@holdfast/csi/methods";
import { type CallOutcome, codes } from "@holdfast/csi/outcome";
import type { PluginDirectory } from "@holdfast/csi/plugin-directory";
import type { CallOrder } from "@holdfast/model/call-order";
import { HoldfastError, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import type { NodeMethod } from "../ports.ts";

export interface RelayedCall {
  readonly plugin: string;
  readonly method: string;
  readonly request: Uint8Array;
  /** The caller's own time; 0: as the method's policy says. */
  readonly deadlineMs: number;
  /** The store generation of whoever asks. */
  readonly gen: number;
  /** undefined: a controller of an earlier version, or a call that changes nothing. */
  readonly order?: CallOrder | undefined;
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
}

export interface RelayOptions {
  readonly directory: Pick<PluginDirectory, "get">;
  /** What this agent has promised: a controller with an older store must not change a backend through it either. */
  readonly promisedGen: () => number;
}

export function createRelay({ directory, promisedGen }: RelayOptions): Relay {
  const checkGeneration = ({ plugin, gen }: RelayedCall): void => {
    const promised = promisedGen();
    if (gen >= promised) return;
    throw new HoldfastError({
      kind: "precondition",
      reason: "GENERATION",
      message: `the call to plugin ${plugin} is of store generation ${gen}, and ${promised} was promised: the store of this controller is older than what its agents have seen; vet it`,
      metadata: { plugin, gen: String(gen), promised: String(promised) },
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

  return {
    async unary(call, signal) {
      checkGeneration(call);
      const method = methodOf(call.method);
      if (method === undefined || !isUnaryMethod(method)) throw wrongMethod(`${call.method} is no unary method of CSI`);
      if (kept.has(method)) {
        throw wrongMethod(`${call.method} is the agent's own: it makes it by itself, one at a time for each volume`);
      }
      const connection = halfFor(call.plugin, method);
      if (connection === undefined) return pluginAway(call.plugin);
      const { order } = call;
      const options = { signal, order, ...within(call.deadlineMs, "deadlineMs") };
      return endOf(await connection.relay(method, call.request, options));
    },

    async *stream(call, signal) {
      checkGeneration(call);
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
