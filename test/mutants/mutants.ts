/** Faults that somebody could make, each with the test that has to fail by it. */
export interface Mutant {
  readonly name: string;
  readonly file: string;
  /** Stands once in the file. */
  readonly find: string;
  readonly put: string;
  readonly caughtBy: string;
}

export const mutants: readonly Mutant[] = [
  {
    name: "who waits for the next frame is not woken when the stream ends",
    file: "packages/shared/src/grpc/stream/send-queue.ts",
    find: "    for (const wake of woken) wake(over); // Q3",
    put: "",
    caughtBy: "packages/shared/src/grpc/stream/send-queue.test.ts",
  },
  {
    name: "the queue of a stream has no bound",
    file: "packages/shared/src/grpc/stream/send-queue.ts",
    find: "if (ended || !fits(frame.bytes.length)) return false; // Q1",
    put: "if (ended) return false;",
    caughtBy: "packages/shared/src/grpc/stream/send-queue.test.ts",
  },
  {
    name: "a call that was given up is answered",
    file: "packages/shared/src/grpc/stream/served-calls.ts",
    find: "    if (abort.signal.aborted) return; // V2",
    put: "",
    caughtBy: "packages/shared/src/grpc/stream/stream-calls.test.ts",
  },
  {
    name: "a number that is open is asked again",
    file: "packages/shared/src/grpc/stream/served-calls.ts",
    find: "if (open.has(seq)) throw",
    put: "if (seq < 0) throw",
    caughtBy: "packages/shared/src/grpc/stream/stream-calls.test.ts",
  },
  {
    name: "a cancel ends no handler",
    file: "packages/shared/src/grpc/stream/served-calls.ts",
    find: "cancelled: (seq) => open.get(seq)?.abort.abort(), // V2",
    put: "cancelled: () => undefined,",
    caughtBy: "packages/shared/src/grpc/stream/stream-calls.test.ts",
  },
  {
    name: "a call that left is told as not sent when its stream ends",
    file: "packages/shared/src/grpc/stream/asked-call.ts",
    find: "unseen ? notSent(peer, why) : streamEnded(peer, why)",
    put: "notSent(peer, why)",
    caughtBy: "packages/shared/src/grpc/stream/stream-cut.test.ts",
  },
  {
    name: "a handler is not woken when its peer goes",
    file: "services/controller/src/nodes/link-service.ts",
    find: '      signal.addEventListener("abort", gone, { once: true });',
    put: "",
    caughtBy: "services/controller/src/nodes/link-service-lost.test.ts",
  },
  {
    name: "an order that was lost twice takes others along",
    file: "services/controller/src/nodes/order-lane.ts",
    find: "    limiter.setLimit(1);",
    put: "",
    caughtBy: "services/controller/src/nodes/order-lane.test.ts",
  },
  {
    name: "a body without its end is taken for whole",
    file: "packages/shared/src/grpc/stream/transfer-chunks.ts",
    find: 'if (step.done) throw transferCut("it ended before its end"); // K1',
    put: "if (step.done) return { open: undefined, data: nothing, endsMessage: false, messageBytes: 0, complete: true };",
    caughtBy: "packages/shared/src/grpc/stream/transfer-meeting.test.ts",
  },
  {
    name: "a doubt is answered by nobody",
    file: "services/controller/src/nodes/link-keeper.ts",
    find: "if (known === undefined || !links.has(known)) return;",
    put: "return;",
    caughtBy: "services/controller/src/nodes/link-keeper.test.ts",
  },
  {
    name: "a call that a later one has overtaken runs",
    file: "packages/csi/src/order-gate.ts",
    find: "if (isAbove(highest, order) || highest.opId",
    put: "if (highest.opId",
    caughtBy: "packages/csi/src/order-gate.test.ts",
  },
  {
    name: "a call runs again after its final answer",
    file: "packages/csi/src/open-calls.ts",
    find: "answer && finalOf(method, answer)",
    put: "answer && undefined",
    caughtBy: "packages/csi/src/open-calls.test.ts",
  },
  {
    name: "a subject that was forgotten takes its floor along",
    file: "packages/csi/src/order-gate.ts",
    find: "if (isAbove(highest, floor)) floor = highest;",
    put: "",
    caughtBy: "packages/csi/src/order-gate.test.ts",
  },
  {
    name: "a stale order is stored as the outcome of its attempt",
    file: "services/controller/src/reconcile/owed/under-intent.ts",
    find: 'outcome.kind !== "done" && isStale(outcome.failure)',
    put: "false",
    caughtBy: "services/controller/src/reconcile/owed/under-intent.test.ts",
  },
  {
    name: "a call whose order is not known leaves",
    file: "services/controller/src/reconcile/owed/under-intent.ts",
    find: "if (order !== undefined && stored?.uid === uid",
    put: "if (stored?.uid === uid",
    caughtBy: "services/controller/src/reconcile/owed/under-intent.test.ts",
  },
];
