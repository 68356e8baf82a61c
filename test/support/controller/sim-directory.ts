/** The processes of the simulated plugin beside a controller, as its plugin directory shows them, with the real client side of CSI. */
import type { PluginFacts } from "@holdfast/csi/capabilities";
import { createCsiCaller } from "@holdfast/csi/csi-caller";
import { createCsiExchange } from "@holdfast/csi/csi-exchange";
import type { CsiMethod } from "@holdfast/csi/methods";
import type { PluginConnection } from "@holdfast/csi/plugin-connection";
import type { PluginDirectory } from "@holdfast/csi/plugin-directory";
import type { CsiTransport } from "@holdfast/csi/transport";
import type { Clock } from "@holdfast/shared/async/clock";
import type { Tracing } from "@holdfast/shared/tracing";

export interface SimProcess {
  readonly socket: string;
  readonly transport: CsiTransport;
  ready: boolean;
  facts: PluginFacts;
  /** Announced, and answered UNIMPLEMENTED since the facts were read. */
  readonly denied: Set<CsiMethod>;
}

export interface SimDirectory extends Pick<PluginDirectory, "list" | "onChange"> {
  /** Gone, or back: then its capabilities were read anew. */
  set(socket: string, ready: boolean): void;
}

export const createSimDirectory = (deps: {
  readonly processes: readonly SimProcess[];
  readonly clock: Clock;
  readonly tracing: Tracing;
}): SimDirectory => {
  const { processes, clock, tracing } = deps;
  const listeners = new Set<(connection: PluginConnection) => void>();
  const connections = new Map(
    processes.map((process) => {
      const plugin = () => process.facts.name;
      const caller = createCsiCaller({
        plugin,
        exchange: createCsiExchange({ plugin, tracing, clock }),
        access: () => {
          const { ready, facts, transport, denied } = process;
          return ready ? { facts, transport, denied } : { closed: "the plugin is away" };
        },
        onUnimplemented: (method) => process.denied.add(method),
      });
      const status = () => ({ phase: process.ready ? "ready" : "waiting", facts: process.facts, reason: "it is away" });
      return [process.socket, { ...caller, socketPath: process.socket, status } as unknown as PluginConnection];
    }),
  );

  return {
    list: () => [...connections.values()],
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    set(socket, ready) {
      const process = processes.find((one) => one.socket === socket);
      const connection = connections.get(socket);
      if (process === undefined || connection === undefined) return;
      process.ready = ready;
      if (ready) {
        process.denied.clear();
        process.facts = { ...process.facts };
      }
      for (const listener of [...listeners]) listener(connection);
    },
  };
};
