/** How a call comes to a gate, and how its answer comes back. */
import type { GateQuestion } from "./gate-rules.ts";
import type { CallTask, Gate, Reply, SentCall } from "./model-types.ts";
import { subjectOf } from "./plugin-calls.ts";
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
    const { method, node, what, order } = call;
    const made = { method, node, order, ...(what === undefined ? {} : { what }) };
    const subject = subjectOf(call);
    const calls = one([...gate.calls.filter((other) => subjectOf(other) !== subject), one(made)]);
    const raised = one(gate.raised.filter((other) => other.subject !== subject));
    const waiting = sorted([...gate.waiting, one({ issuer, order, subject })]);
    return { gate: one({ ...gate, calls, raised, waiting }) };
  };
  const answeredTask = (task: CallTask, reply: Reply): CallTask =>
    task.phase === "called" ? one({ ...task, answer: reply }) : task;

  const raisedTo = (gate: Gate, { order, subject }: GateQuestion): Gate => {
    const to = one({ ...order, subject });
    return one({ ...gate, raised: one([...gate.raised.filter((other) => other.subject !== subject), to]) });
  };

  return { withoutWaiter, without, sorted, arrive, answeredTask, raisedTo };
};

export type GateMoves = ReturnType<typeof createGateMoves>;
