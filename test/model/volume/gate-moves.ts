/** How a call comes to a gate, and how its answer comes back. */
import type { CallTask, Gate, Reply, SentCall } from "./model-types.ts";
import type { ProductRules } from "./product-rules.ts";

export const createGateMoves = ({ one, idOf, passage }: ProductRules) => {
  const withoutWaiter = (gate: Gate, issuer: string): Gate =>
    gate.waiting.some((w) => w.issuer === issuer)
      ? one({ ...gate, waiting: one(gate.waiting.filter((w) => w.issuer !== issuer)) })
      : gate;
  const without = <T>(list: readonly T[], index: number): readonly T[] =>
    one(list.filter((_, i) => i !== index) as T[] & object);
  const sorted = <T extends object>(list: readonly T[]): readonly T[] =>
    one([...list].sort((a, b) => idOf(a) - idOf(b)));

  /** A call comes to a gate: to the plugin, to its open call, or back. */
  const arrive = (gate: Gate, issuer: string, call: SentCall): { readonly gate: Gate; readonly reply?: Reply } => {
    const passed = passage(gate, call);
    if (passed !== "sent" && passed !== "joined") return { gate, reply: passed };
    const { raised: _overtaken, ...rest } = gate;
    const last = one({ method: call.method, node: call.node, order: call.order });
    const waiting = sorted([...gate.waiting, one({ issuer, order: call.order })]);
    return { gate: one({ ...rest, last, waiting }) };
  };
  const answeredTask = (task: CallTask, reply: Reply): CallTask =>
    task.phase === "called" ? one({ ...task, answer: reply }) : task;

  return { withoutWaiter, without, sorted, arrive, answeredTask };
};

export type GateMoves = ReturnType<typeof createGateMoves>;
