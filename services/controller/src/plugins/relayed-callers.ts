/** The callers of instances on nodes: made when an instance is first called, forgotten when its node has it no more. */
import type { PluginFacts } from "@holdfast/csi/capabilities";
import { type CsiCaller, createCsiCaller } from "@holdfast/csi/csi-caller";
import { type CallReport, createCsiExchange } from "@holdfast/csi/csi-exchange";
import type { CsiMethod } from "@holdfast/csi/methods";
import type { Clock } from "@holdfast/shared/async/clock";
import type { Tracing } from "@holdfast/shared/tracing";
import type { HalfOnNode, HalvesOnNodes } from "./halves-on-nodes.ts";
import type { RelayLines } from "./relay-transport.ts";

/** A caller, and the facts that it was made for. */
interface Relayed {
  readonly plugin: string;
  readonly node: string;
  readonly facts: PluginFacts;
  readonly caller: CsiCaller;
}

export interface RelayedCallers {
  of(plugin: string, id: string, half: HalfOnNode): CsiCaller;
  /** What nodes have no more is forgotten, with what is kept for a node that has nothing left to call. */
  forget(plugin: string): void;
}

export interface RelayedCallersOptions {
  readonly halves: Pick<HalvesOnNodes, "at">;
  readonly lines: Pick<RelayLines, "transportTo" | "forget">;
  readonly clock: Clock;
  readonly tracing: Tracing;
  readonly onCall?: ((report: CallReport) => void) | undefined;
}

export const createRelayedCallers = (options: RelayedCallersOptions): RelayedCallers => {
  const { halves, lines, clock, tracing, onCall } = options;
  const relayed = new Map<string, Relayed>();

  /** A caller lasts as long as the facts it was made for: what the plugin denied is forgotten with them. */
  const of: RelayedCallers["of"] = (plugin, id, half) => {
    const known = relayed.get(id);
    if (known?.facts === half.facts) return known.caller;
    const denied = new Set<CsiMethod>();
    const node = half.node.name;
    const caller = createCsiCaller({
      plugin: () => plugin,
      exchange: createCsiExchange({ plugin: () => plugin, instance: id, node, tracing, clock, hop: "relay", onCall }),
      access: () => {
        const now = halves.at(plugin, node);
        if (now?.usable !== true)
          return { closed: `plugin ${plugin}: ${now?.why ?? `node ${node} has no controller half of it any more`}` };
        return { facts: now.facts, transport: lines.transportTo(node, plugin), denied };
      },
      onUnimplemented: (method) => denied.add(method),
    });
    relayed.set(id, { plugin, node, facts: half.facts, caller });
    return caller;
  };

  return {
    of,
    forget(plugin) {
      for (const [id, one] of [...relayed]) {
        if (one.plugin !== plugin || halves.at(plugin, one.node) !== undefined) continue;
        relayed.delete(id);
        if (![...relayed.values()].some(({ node }) => node === one.node)) lines.forget(one.node);
      }
    },
  };
};
