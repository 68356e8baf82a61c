/** Agents that hold the sockets of one plugin, in this process: the real rules of open calls, and a way there that can freeze. */
import type { Seat } from "@holdfast/controller/domain/open-call";
import { nameOnNode, nodeOfName } from "@holdfast/controller/domain/plugin/instance-name";
import { createGates } from "@holdfast/controller/plugins/gates";
import { gateAnswer } from "@holdfast/controller/plugins/relay-transport";
import { createOpenCalls, type OpenCalls } from "@holdfast/csi/open-calls";
import type { CsiTransport } from "@holdfast/csi/transport";
import type { Clock } from "@holdfast/shared/async/clock";

interface Gate {
  readonly calls: OpenCalls;
  readonly transport: CsiTransport;
  /** From now on its calls lie there, and its callers have no answer. */
  freeze(): void;
  /** What lies there reaches the plugin. */
  thaw(): void;
  readonly frozen: () => boolean;
}

const gone = { failure: { code: "UNAVAILABLE", message: "the gate does not answer", sent: true } } as const;

const createGate = (via: string, inner: CsiTransport, clock: Clock): Gate => {
  const calls = createOpenCalls({ clock });
  let lies: PromiseWithResolvers<void> | undefined;
  let lost = Promise.withResolvers<void>();
  const lying: CsiTransport = {
    ...inner,
    async unary(...call) {
      await lies?.promise;
      return await inner.unary(...call);
    },
  };
  const held = calls.over(lying, { socketPath: via, incarnation: "1", gone: () => false });
  return {
    calls,
    frozen: () => lies !== undefined,
    freeze() {
      lies ??= Promise.withResolvers();
      lost.resolve();
    },
    thaw() {
      lies?.resolve();
      lies = undefined;
      lost = Promise.withResolvers();
    },
    transport: {
      ...held,
      unary: (...call) => Promise.race([held.unary(...call), lost.promise.then(() => gone)]),
    },
  };
};

/** By instance and life; a life that is not among the seats of the plugin does not answer. */
export const createSimGates = (inner: CsiTransport, clock: Clock, seats: () => readonly Seat[]) => {
  const gates = new Map<string, Gate>();
  const gateOf = ({ via, gate = "" }: Seat): Gate => {
    const key = `${via} ${gate}`;
    const found = gates.get(key) ?? createGate(via, inner, clock);
    gates.set(key, found);
    return found;
  };
  const asked: string[] = [];
  return {
    gateOf,
    /** Subjects of which a gate was asked to let go. */
    asked,
    ...createGates(
      {
        quiesce: async () => {
          throw new Error("no bar has a socket beside this controller");
        },
      },
      {
        async quiesce(node, plugin, { gate, subject, order, waitMs }, signal) {
          asked.push(`${nameOnNode(plugin, node)}: ${subject}`);
          const seat = seats().find((one) => nodeOfName(one.via) === node && one.gate === gate);
          if (seat === undefined || gateOf(seat).frozen()) return { kind: "away", words: "it does not answer" };
          return gateAnswer(await gateOf(seat).calls.quiesce(subject, order, waitMs, signal));
        },
      },
    ),
  };
};
