/**
 * The processes of the simulated plugin beside one controller. They outlive its lives; the gate of their sockets, and every connection, is
 * of one life.
 */
import type { CsiMethod } from "@holdfast/csi/methods";
import { createOpenCalls, type OpenCalls } from "@holdfast/csi/open-calls";
import type { CsiTransport } from "@holdfast/csi/transport";
import type { Clock } from "@holdfast/shared/async/clock";
import type { Backend } from "@holdfast/sim-plugin/backend/backend";
import type { Halting } from "./halting.ts";
import type { SimProcess } from "./sim-directory.ts";
import { createSimTransport, type WayFault } from "./sim-transport.ts";
import { allYes } from "./snapshot-world.ts";

export const sockets = ["sim-1.sock", "sim-2.sock"] as const;

/** As the book of the backend names the process on a socket; controllers may have sockets of one name. */
export const processAt = (controller: string, socket: string): string => `${controller}:${socket}`;

const unlistened = { socketPath: "", incarnation: "", gone: () => true };

const facts = () => {
  const all = allYes();
  return {
    ...all,
    plugin: {
      ...all.plugin,
      VOLUME_ACCESSIBILITY_CONSTRAINTS: "yes" as const,
      VOLUME_EXPANSION_OFFLINE: "no" as const,
    },
  };
};

export interface ProcessesBesideDeps {
  readonly controller: string;
  readonly backend: Backend;
  readonly clock: Clock;
  readonly pick: (method: CsiMethod) => WayFault | undefined;
  readonly altered: (method: CsiMethod, response: unknown) => unknown;
}

export type ProcessesBeside = ReturnType<typeof createProcessesBeside>;

export const createProcessesBeside = ({ controller, backend, clock, pick, altered }: ProcessesBesideDeps) => {
  /** Processes that get calls and answer none, and how they end. */
  const hanging = new Map<string, PromiseWithResolvers<void>>();
  const leftOpen = new Set<number>();
  const no = new AbortController();
  no.abort();
  /** The life of the controller that runs. */
  let life: { readonly calls: OpenCalls; readonly signal: AbortSignal; readonly halting: Pick<Halting, "through"> } = {
    calls: createOpenCalls({ clock }),
    signal: no.signal,
    halting: { through: (answer) => answer },
  };

  const processes = sockets.map((socket) => {
    const transport = createSimTransport(backend, { name: processAt(controller, socket), clock });
    transport.alter(altered);
    transport.chance((method) => {
      const hung = hanging.get(socket);
      return hung === undefined ? pick(method) : { kind: "hung", until: hung.promise };
    });
    /** Each process on the socket, the one that listens now last. */
    const listeners = [{ socketPath: socket, incarnation: "1", gone: () => false }];
    /** Its connections end with the life. */
    const tied: CsiTransport = {
      unary: (method, request, { signal, ...more }) =>
        life.halting.through(
          transport.unary(method, request, { ...more, signal: AbortSignal.any([signal, life.signal]) }),
        ),
      stream: (...call) => transport.stream(...call),
    };
    return {
      socket,
      transport: {
        unary: (...call) => life.calls.over(tied, listeners.at(-1) ?? unlistened).unary(...call),
        stream: tied.stream,
      },
      ready: true as boolean,
      facts: facts(),
      denied: new Set<CsiMethod>(),
      /** Another process takes the place of the one that listens. */
      succeed() {
        const last = listeners.at(-1);
        if (last !== undefined) last.gone = () => true;
        listeners.push({ socketPath: socket, incarnation: String(listeners.length + 1), gone: () => false });
      },
    } satisfies SimProcess & { succeed(): void };
  });

  return {
    processes,
    /** The next life of the controller connects; answers the gate of its sockets. */
    begin(signal: AbortSignal, halting: Halting): OpenCalls {
      life = { calls: createOpenCalls({ clock: halting.clock }), signal, halting };
      return life.calls;
    },
    /** The life is over: its successor may repeat what it left open at the processes, and nothing else. */
    orphan() {
      for (const socket of sockets) backend.senderEnded(processAt(controller, socket));
      for (const { seq, orphaned } of backend.inFlight()) if (orphaned) leftOpen.add(seq);
    },
    /** That call was open at a process of the plugin when the life that had sent it was over. */
    isLeftOpen: (seq: number): boolean => leftOpen.has(seq),
    /** From now on the process answers no call that it gets. */
    hang: (which: 0 | 1) => void hanging.set(sockets[which], Promise.withResolvers<void>()),
    /** What it had in hand is over. */
    end(which: 0 | 1) {
      const socket = sockets[which];
      backend.attach({ name: processAt(controller, socket), role: "controller" });
      hanging.get(socket)?.resolve();
      hanging.delete(socket);
      processes[which]?.succeed();
    },
  };
};
