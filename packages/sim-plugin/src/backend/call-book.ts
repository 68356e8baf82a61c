import type { Answer, Ending } from "./answer.ts";
import type { Call, Instance } from "./call.ts";
import { subjectOf } from "./call.ts";
import { type CallRecord, requestSummary, type Violation } from "./call-record.ts";
import type { CodeName } from "./codes.ts";
import type { Fault } from "./faults.ts";
import type { Finding, InFlight } from "./rules/rule.ts";

/** A call between its beginning and its end. */
export interface OpenCall {
  readonly seq: number;
  readonly call: Call;
  readonly instance: Instance;
  readonly lane: string | undefined;
  abandoned: boolean;
  orphaned: boolean;
  answer: Answer | undefined;
}

type Draft = { -readonly [K in keyof CallRecord]: CallRecord[K] };

export interface CallBook {
  begin(call: Call, instance: Instance, lane: string | undefined): OpenCall;
  blame(open: OpenCall, findings: readonly Finding[]): void;
  meet(open: OpenCall, fault: Fault): void;
  settle(open: OpenCall, answer: Answer): void;
  /** Answers the code that the caller was told, if any. */
  end(open: OpenCall, ending: Ending): CodeName | undefined;
  open(ticket: number): OpenCall | undefined;
  inFlight(except?: OpenCall): readonly InFlight[];
  openOf(instance: string): readonly OpenCall[];
  record(): readonly CallRecord[];
  violations(): readonly Violation[];
  restore(seq: number, violations: readonly Violation[]): void;
  clear(): void;
  lastSeq(): number;
}

const wordOf = (fault: Fault): string => {
  if (fault.code !== undefined) return `${fault.code} ${fault.when ?? "before"}`;
  const words = ["hang", "hangMs", "dropReply", "die", "lie", "neverReady", "notReadyFor", "malformed"] as const;
  const word = words.find((one) => fault[one] !== undefined) ?? "none";
  return word === "die" || word === "malformed" ? `${word} ${fault[word]}` : word;
};

/**
 * Keeps the record. Invariants:
 * B1 one counter numbers beginnings and ends, over all role processes;
 * B2 a call ends once: what is told after its end changes nothing.
 */
export const createCallBook = (now: () => Date): CallBook => {
  let seq = 0;
  let lines: Draft[] = [];
  let offences: Violation[] = [];
  const bySeq = new Map<number, Draft>();
  const openCalls = new Map<number, OpenCall>();

  const draftOf = (open: OpenCall): Draft | undefined => bySeq.get(open.seq);

  return {
    begin: (call, instance, lane) => {
      seq += 1; // B1
      const draft: Draft = {
        seq,
        at: now().toISOString(),
        instance: instance.name,
        role: instance.role,
        method: call.method,
        ...subjectOf(call, instance.node),
        request: requestSummary(call),
        ...(call.traceparent === undefined ? {} : { traceparent: call.traceparent }),
        ...(call.deadlineMs === undefined ? {} : { deadlineMs: call.deadlineMs }),
        ...(call.token?.claims === undefined ? {} : { token: call.token.claims }),
        violations: [],
        done: false,
      };
      lines.push(draft);
      bySeq.set(seq, draft);
      const open: OpenCall = { seq, call, instance, lane, abandoned: false, orphaned: false, answer: undefined };
      openCalls.set(seq, open);
      return open;
    },

    blame: (open, findings) => {
      const { method } = open.call;
      const { volume, node } = subjectOf(open.call, open.instance.node);
      const blamed = findings.filter((finding) => finding.rule.blame === "caller");
      const draft = draftOf(open);
      if (draft !== undefined) draft.violations = blamed.map((finding) => finding.rule.id);
      for (const { rule, message } of blamed)
        offences.push({
          rule: rule.id,
          spec: rule.spec,
          message,
          seq: open.seq,
          method,
          instance: open.instance.name,
          ...(volume === undefined ? {} : { volume }),
          ...(node === undefined ? {} : { node }),
        });
    },

    meet: (open, fault) => {
      const draft = draftOf(open);
      if (draft !== undefined) draft.fault = wordOf(fault);
    },

    settle: (open, answer) => {
      open.answer = answer;
      const draft = draftOf(open);
      if (draft !== undefined) draft.done = "response" in answer;
    },

    end: (open, ending) => {
      if (!openCalls.delete(open.seq)) return undefined; // B2
      seq += 1; // B1
      const draft = draftOf(open);
      bySeq.delete(open.seq);
      if (draft === undefined) return undefined;
      const answered = open.answer !== undefined && "refusal" in open.answer ? open.answer.refusal : undefined;
      const refusal = ending.refusal ?? answered;
      draft.endSeq = seq;
      draft.endedAt = now().toISOString();
      draft.reply = ending.reply;
      if (refusal !== undefined) draft.message = refusal.message;
      const code = refusal?.code ?? (open.answer === undefined ? undefined : "OK");
      if (code !== undefined) draft.code = code;
      return code;
    },

    open: (ticket) => openCalls.get(ticket),

    inFlight: (except) =>
      [...openCalls.values()]
        .filter((open) => open !== except)
        .map(({ seq: at, call, instance, lane, abandoned, orphaned }) => ({
          seq: at,
          method: call.method,
          request: call.request,
          instance: instance.name,
          abandoned: abandoned || orphaned,
          orphaned,
          ...(lane === undefined ? {} : { lane }),
          ...subjectOf(call, instance.node),
        })),

    openOf: (instance) => [...openCalls.values()].filter((open) => open.instance.name === instance),
    record: () => lines.map((line) => ({ ...line })),
    violations: () => [...offences],
    restore: (at, before) => {
      seq = at;
      offences = [...before];
    },
    clear: () => {
      lines = [];
      offences = [];
    },
    lastSeq: () => seq,
  };
};
