/** The simulated storage in this very process, reached by the real client side of CSI: requests and answers are bytes, faults are data. */
import { codecOf, definitions } from "@holdfast/csi/messages";
import type { CsiMethod } from "@holdfast/csi/methods";
import type { Code } from "@holdfast/csi/outcome";
import type { CsiTransport, WireReply } from "@holdfast/csi/transport";
import type { Answer } from "@holdfast/sim-plugin/backend/answer";
import type { Backend } from "@holdfast/sim-plugin/backend/backend";
import type { Call } from "@holdfast/sim-plugin/backend/call";
import { malform } from "@holdfast/sim-plugin/role/malform";

/** How one call goes: what the plugin does not do itself, the way to it does. */
export type WayFault =
  /** Refused or failed with that code, before or after the work was done. */
  | { readonly kind: "code"; readonly code: Code; readonly when: "before" | "after" }
  /** The answer is lost: the work is done. */
  | { readonly kind: "lost" }
  /** The call never arrives. */
  | { readonly kind: "dropped" }
  /** It has no answer, and the plugin does the work later. */
  | { readonly kind: "late"; readonly until: Promise<void> };

export interface SimTransport extends CsiTransport {
  /** Asked before each call; for random faults. */
  chance(pick: ((method: CsiMethod) => WayFault | undefined) | undefined): void;
  /** Changes what the plugin answers. */
  alter(change: ((method: CsiMethod, response: unknown) => unknown) | undefined): void;
  /** Calls wait for it before they reach the plugin. */
  hold(until: Promise<void> | undefined): void;
  /** The next streams break with this code after so many messages. */
  breakStreams(...breaks: readonly { readonly after: number; readonly code: Code }[]): void;
  /** Requests of streams that were opened. */
  readonly opened: readonly object[];
  /** Messages that were asked for, over all streams. */
  sentMessages(): number;
}

const instance = "controller";

const failure = (code: Code, message: string, sent = true): WireReply => ({ failure: { code, message, sent } });

interface RequestCodec {
  decodeRequest(bytes: Uint8Array): object;
}

interface ResponseCodec {
  fromPartial(response: unknown): unknown;
  encode(response: unknown): { finish(): Uint8Array };
}

export const createSimTransport = (backend: Backend): SimTransport => {
  backend.attach({ name: instance, role: "controller" });
  let pick: ((method: CsiMethod) => WayFault | undefined) | undefined;
  let change: ((method: CsiMethod, response: unknown) => unknown) | undefined;
  let held: Promise<void> | undefined;
  let sent = 0;
  const breaks: { readonly after: number; readonly code: Code }[] = [];
  const opened: object[] = [];

  const callOf = (method: CsiMethod, bytes: Uint8Array): Call =>
    ({ instance, method, request: (codecOf(method) as RequestCodec).decodeRequest(bytes) }) as unknown as Call;

  const encode = (method: CsiMethod, response: unknown): Uint8Array => {
    const codec = definitions[method].responseType as unknown as ResponseCodec;
    return codec.encode(codec.fromPartial(change?.(method, response) ?? response)).finish();
  };

  const repliedWith = (method: CsiMethod, answer: Answer): WireReply =>
    "refusal" in answer
      ? failure(answer.refusal.code, answer.refusal.message)
      : { bytes: encode(method, answer.response) };

  const begin = (call: Call): WireReply => {
    const { method } = call;
    const admission = backend.begin(call);
    if (admission.kind === "answered") return repliedWith(method, admission.answer);
    const { ticket, fault } = admission;
    const close = (reply: "sent" | "dropped" = "sent") => backend.close(ticket, { reply });
    const early = fault?.when !== "after" && fault?.code !== undefined;
    if (early || fault?.hang || fault?.die === "before") {
      close("dropped");
      return failure(fault?.code ?? (fault?.hang ? "DEADLINE_EXCEEDED" : "UNAVAILABLE"), fault?.message ?? "as told");
    }
    const answer = backend.apply(ticket);
    const late = fault?.dropReply || fault?.die === "after" || fault?.code !== undefined;
    close(late ? "dropped" : "sent");
    if (late && "response" in answer) return failure(fault?.code ?? "UNAVAILABLE", fault?.message ?? "as told");
    if ("response" in answer && fault?.malformed !== undefined)
      return { bytes: encode(method, malform(call.method, answer.response, fault.malformed)) };
    return repliedWith(method, answer);
  };

  return {
    async unary(method, bytes, { signal }) {
      signal.throwIfAborted();
      const how = pick?.(method);
      await Promise.resolve();
      if (held !== undefined) await held;
      if (how?.kind === "dropped") return failure("UNAVAILABLE", "the call never arrived");
      if (how?.kind === "late") {
        void how.until.then(() => begin(callOf(method, bytes)));
        return failure("DEADLINE_EXCEEDED", "the plugin takes longer");
      }
      if (how?.kind === "code" && how.when === "before") return failure(how.code, "as told, before the work");
      const reply = begin(callOf(method, bytes));
      if (how?.kind === "lost") return failure("DEADLINE_EXCEEDED", "the answer was lost");
      if (how?.kind === "code" && "bytes" in reply) return failure(how.code, "as told, after the work");
      return reply;
    },
    async *stream(method, bytes) {
      const call = callOf(method, bytes);
      opened.push(call.request);
      const broken = breaks.shift();
      const admission = backend.begin(call);
      if (admission.kind !== "answered") throw new Error("faults of streams are told with breakStreams");
      const { answer } = admission;
      if ("refusal" in answer) {
        yield failure(answer.refusal.code, answer.refusal.message);
        return;
      }
      for (const [n, message] of (answer.response as readonly unknown[]).entries()) {
        if (broken !== undefined && n >= broken.after) break;
        sent += 1;
        yield { bytes: encode(method, message) };
      }
      if (broken !== undefined) yield failure(broken.code, "the stream broke, as told");
    },
    chance(next) {
      pick = next;
    },
    alter(next) {
      change = next;
    },
    hold(until) {
      held = until;
    },
    breakStreams: (...next) => void breaks.push(...next),
    opened,
    sentMessages: () => sent,
  };
};
