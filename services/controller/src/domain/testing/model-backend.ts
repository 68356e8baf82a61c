import type { Advice, Failure, Outcome } from "../outcome.ts";

/** What happens to one call on its way to the backend and back. */
export const callFates = [
  "done",
  "answer-lost",
  "call-lost",
  "slow-done",
  "slow-nothing",
  "busy",
  "full-done",
  "full",
  "refused",
  "blocked",
  "not-found",
] as const;
export type CallFate = (typeof callFates)[number];

export type BackendCall =
  | { readonly op: "create"; readonly name: string }
  | { readonly op: "delete"; readonly externalId: string }
  | { readonly op: "attach"; readonly externalId: string; readonly node: string }
  | { readonly op: "detach"; readonly externalId: string; readonly node: string };

/** A call that left: its answer comes with `finish`, or never, when its caller is gone. */
export interface CallInFlight {
  finish(): Outcome<string>;
  abandon(): void;
}

export interface ModelBackend {
  /** `late` = what it does, it does just before it answers, not when it arrives. */
  begin(call: BackendCall, fate: CallFate, late: boolean): CallInFlight;
  /** An operation that outlived its call comes to its end. */
  settle(): void;
  running(): BackendCall | undefined;
  stored(): ReadonlyMap<string, string>;
  attachedTo(externalId: string): readonly string[];
  attachments(): readonly { readonly externalId: string; readonly node: string }[];
}

const failed = (kind: "refused" | "unknown", advice: Advice, code: string): Outcome<string> => {
  const failure: Failure = { reason: code, message: `the plugin answered ${code}`, advice, code };
  return { kind, failure };
};

const full: Outcome<string> = {
  kind: "unknown",
  failure: {
    reason: "RESOURCE_EXHAUSTED",
    message: "no more",
    advice: "again",
    code: "RESOURCE_EXHAUSTED",
    nodeFull: true,
  },
};

const answers: Record<Exclude<CallFate, "done">, Outcome<string>> = {
  "answer-lost": failed("unknown", "again", "DEADLINE_EXCEEDED"),
  "call-lost": failed("unknown", "again", "UNAVAILABLE"),
  "slow-done": failed("unknown", "again", "DEADLINE_EXCEEDED"),
  "slow-nothing": failed("unknown", "again", "DEADLINE_EXCEEDED"),
  busy: failed("unknown", "wait", "ABORTED"),
  "full-done": full,
  full,
  refused: failed("refused", "fail", "INVALID_ARGUMENT"),
  blocked: failed("refused", "block", "FAILED_PRECONDITION"),
  "not-found": failed("unknown", "check-absence", "NOT_FOUND"),
};

const effective: Record<CallFate, boolean> = {
  done: true,
  "answer-lost": true,
  "call-lost": false,
  "slow-done": true,
  "slow-nothing": false,
  busy: false,
  "full-done": true,
  full: false,
  refused: false,
  blocked: false,
  "not-found": false,
};

/**
 * The storage behind the plugin: idempotent as CSI asks, and without any opinion. It attaches a single-node volume twice when it
 * is told to, so that nothing but the rules under test keeps the volume safe; unless it is for one node at a time, whatever the mode
 * says. `watch` sees each effect before it happens.
 */
export const createModelBackend = (watch: (call: BackendCall) => void, oneNode = false): ModelBackend => {
  const stored = new Map<string, string>();
  const attached = new Map<string, Set<string>>();
  let running: { readonly call: BackendCall; readonly effective: boolean } | undefined;
  let made = 0;

  const apply = (call: BackendCall): string => {
    watch(call);
    switch (call.op) {
      case "create": {
        const known = stored.get(call.name);
        if (known !== undefined) return known;
        made += 1;
        const externalId = `ext-${made}`;
        stored.set(call.name, externalId);
        return externalId;
      }
      case "delete":
        for (const [name, externalId] of stored) if (externalId === call.externalId) stored.delete(name);
        return "";
      case "attach":
        attached.set(call.externalId, new Set([...(attached.get(call.externalId) ?? []), call.node]));
        return "";
      case "detach":
        attached.get(call.externalId)?.delete(call.node);
        return "";
    }
  };

  /** Nothing else happens to the volume while a call runs, so that this stays true until it ends. */
  const elsewhere = (call: BackendCall): boolean =>
    oneNode && call.op === "attach" && [...(attached.get(call.externalId) ?? [])].some((node) => node !== call.node);

  return {
    begin(call, fate, late) {
      if (running !== undefined) return { finish: () => answers.busy, abandon: () => undefined };
      const refused = elsewhere(call);
      const works = effective[fate] && !refused;
      const slow = fate === "slow-done" || fate === "slow-nothing";
      if (slow) running = { call, effective: works };
      let effect: string | undefined;
      if (works && !slow && !late) effect = apply(call);
      const owed = works && !slow && late;
      return {
        finish() {
          if (owed) effect = apply(call);
          if (refused && fate === "done") return answers.blocked;
          return fate === "done" ? { kind: "done", value: effect ?? "" } : answers[fate];
        },
        abandon() {
          if (owed) running = { call, effective: true };
        },
      };
    },
    settle() {
      if (running?.effective === true) apply(running.call);
      running = undefined;
    },
    running: () => running?.call,
    stored: () => stored,
    attachedTo: (externalId) => [...(attached.get(externalId) ?? [])],
    attachments: () => [...attached].flatMap(([externalId, nodes]) => [...nodes].map((node) => ({ externalId, node }))),
  };
};
