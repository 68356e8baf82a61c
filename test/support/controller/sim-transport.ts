/** The simulated storage in this very process, reached by the real client side of CSI: requests and answers are bytes, faults are data. */
import { codecOf, definitions } from "@holdfast/csi/messages";
import type { CsiMethod } from "@holdfast/csi/methods";
import type { Code } from "@holdfast/csi/outcome";
import type { CsiTransport, WireFailure } from "@holdfast/csi/transport";
import type { Clock } from "@holdfast/shared/async/clock";
import { onAbort } from "@holdfast/shared/async/signals";
import type { Answer } from "@holdfast/sim-plugin/backend/answer";
import type { Backend } from "@holdfast/sim-plugin/backend/backend";
import type { Call, Instance } from "@holdfast/sim-plugin/backend/call";
import { laneOf } from "@holdfast/sim-plugin/backend/lanes";
import { malform } from "@holdfast/sim-plugin/role/malform";

/** How one call goes: what the plugin does not do itself, the way to it does. */
export type WayFault =
  /** Refused or failed with that code, before or after the work was done. */
  | { readonly kind: "code"; readonly code: Code; readonly when: "before" | "after" }
  /** The answer is lost: the work is done. */
  | { readonly kind: "lost" }
  /** The call never arrives. */
  | { readonly kind: "dropped" }
  /** The plugin gets it, and does not answer before its process is gone. */
  | { readonly kind: "hung"; readonly until: Promise<void> }
  /** It has no answer, and the plugin does the work later. */
  | { readonly kind: "late"; readonly until: Promise<void> }
  /** It lies on its way so long, and never arrives when its connection has ended by then. For ways with a clock. */
  | { readonly kind: "delayed"; readonly ms: number }
  /** The plugin works so long on it, also when its caller has given up by then; not `done`: in vain. For ways with a clock. */
  | { readonly kind: "slow"; readonly ms: number; readonly done: boolean };

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

/** How a call comes to its end: the plugin's answer, or why there is none. */
export type SimReply = { readonly response: unknown } | { readonly failure: WireFailure };

export interface SimWay {
  call(method: CsiMethod, request: object, options: WayOptions): Promise<SimReply>;
  /** Asked before each call; for random faults. */
  chance(pick: ((method: CsiMethod) => WayFault | undefined) | undefined): void;
  hold(until: Promise<void> | undefined): void;
}

interface WayOptions {
  readonly signal: AbortSignal;
  readonly deadlineMs: number | undefined;
}

/** Codes that a client makes up when no answer comes. */
const madeUp: ReadonlySet<Code> = new Set<Code>(["CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE"]);

const failure = (code: Code, message: string): { readonly failure: WireFailure } => ({
  failure: { code, message, sent: true, ...(madeUp.has(code) ? {} : { answered: true }) },
});

const replyOf = (answer: Answer): SimReply =>
  "refusal" in answer ? failure(answer.refusal.code, answer.refusal.message) : { response: answer.response };

interface RequestCodec {
  decodeRequest(bytes: Uint8Array): object;
}

interface ResponseCodec {
  fromPartial(response: unknown): unknown;
  encode(response: unknown): { finish(): Uint8Array };
}

/** One process of the plugin, spoken to in this one: what happens to its calls on their way is data. */
export const createSimWay = (backend: Backend, instance: Instance, clock?: Clock): SimWay => {
  backend.attach(instance);
  let pick: ((method: CsiMethod) => WayFault | undefined) | undefined;
  let held: Promise<void> | undefined;

  /** A plugin that works on a call answers no other of the same but with ABORTED: its answer would tell that both are over. */
  const isBusyWith = (call: Call): boolean => {
    const lane = laneOf(call, backend.state(), instance.node);
    return lane !== undefined && backend.inFlight().some((open) => open.lane === lane);
  };

  /** What the plugin itself was told to do wrong. */
  const begin = (call: Call): SimReply => {
    const admission = backend.begin(call);
    if (admission.kind === "answered") return replyOf(admission.answer);
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
      return { response: malform(call.method, answer.response, fault.malformed) };
    return replyOf(answer);
  };

  const slowly = async (
    call: Call,
    { ms, done }: WayFault & { readonly kind: "slow" },
    { signal, deadlineMs }: WayOptions,
  ): Promise<SimReply> => {
    if (clock === undefined) throw new Error("a way without a clock is never slow");
    const admission = backend.begin({ ...call, handsOn: true });
    if (admission.kind === "answered") return replyOf(admission.answer);
    const { ticket } = admission;
    let given: SimReply = failure("UNAVAILABLE", "the work came to nothing");
    const worked = Promise.withResolvers<void>();
    clock.timer(ms, () => {
      try {
        if (done) given = replyOf(backend.apply(ticket));
        backend.close(ticket, { reply: done ? "sent" : "dropped" });
      } catch {
        // The process of the plugin died meanwhile.
      }
      worked.resolve();
    });
    const gaveUp = Promise.withResolvers<string>();
    const stop = clock.timer(deadlineMs ?? Number.MAX_SAFE_INTEGER, () => gaveUp.resolve("the deadline is over"));
    const abort = (): void => gaveUp.resolve("given up");
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    const why = await Promise.race([worked.promise, gaveUp.promise]);
    stop();
    signal.removeEventListener("abort", abort);
    if (why === undefined) return given;
    backend.abandon(ticket);
    return failure("DEADLINE_EXCEEDED", why);
  };

  /** Whether it arrives. */
  const lying = async (ms: number, { signal }: WayOptions): Promise<boolean> => {
    if (clock === undefined) throw new Error("on a way without a clock nothing is delayed");
    const { promise, resolve } = Promise.withResolvers<void>();
    const stop = clock.timer(ms, resolve);
    const leave = onAbort(signal, resolve);
    await promise;
    stop();
    leave();
    return !signal.aborted;
  };

  return {
    async call(method, request, options) {
      options.signal.throwIfAborted();
      const how = pick?.(method);
      await Promise.resolve();
      if (held !== undefined) await held;
      if (how?.kind === "dropped") return failure("UNAVAILABLE", "the call never arrived");
      if (how?.kind === "late") {
        void how.until.then(() => begin({ instance: instance.name, method, request } as unknown as Call));
        return failure("DEADLINE_EXCEEDED", "the plugin takes longer");
      }
      if (how?.kind === "delayed" && !(await lying(how.ms, options)))
        return failure("UNAVAILABLE", "the connection was closed");
      const call = { instance: instance.name, method, request } as unknown as Call;
      if (how?.kind === "code" && how.when === "before" && !isBusyWith(call))
        return failure(how.code, "as told, before the work");
      if (how?.kind === "hung") {
        backend.begin({ ...call, handsOn: true });
        await how.until;
        return failure("UNAVAILABLE", "the connection was closed");
      }
      if (how?.kind === "slow") return await slowly(call, how, options);
      const reply = begin(call);
      if (how?.kind === "lost") return failure("DEADLINE_EXCEEDED", "the answer was lost");
      if (how?.kind === "code" && "response" in reply) return failure(how.code, "as told, after the work");
      return reply;
    },
    chance(next) {
      pick = next;
    },
    hold(until) {
      held = until;
    },
  };
};

export const createSimTransport = (
  backend: Backend,
  { name = "controller", clock }: { readonly name?: string; readonly clock?: Clock } = {},
): SimTransport => {
  const way = createSimWay(backend, { name, role: "controller" }, clock);
  let change: ((method: CsiMethod, response: unknown) => unknown) | undefined;
  let sent = 0;
  const breaks: { readonly after: number; readonly code: Code }[] = [];
  const opened: object[] = [];

  const requestOf = (method: CsiMethod, bytes: Uint8Array): object =>
    (codecOf(method) as RequestCodec).decodeRequest(bytes);

  const encode = (method: CsiMethod, response: unknown): Uint8Array => {
    const codec = definitions[method].responseType as unknown as ResponseCodec;
    return codec.encode(codec.fromPartial(change?.(method, response) ?? response)).finish();
  };

  return {
    async unary(method, bytes, options) {
      const reply = await way.call(method, requestOf(method, bytes), options);
      return "failure" in reply ? reply : { bytes: encode(method, reply.response) };
    },
    async *stream(method, bytes) {
      const request = requestOf(method, bytes);
      opened.push(request);
      const broken = breaks.shift();
      const admission = backend.begin({ instance: name, method, request } as unknown as Call);
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
    chance: way.chance,
    alter(next) {
      change = next;
    },
    hold: way.hold,
    breakStreams: (...next) => void breaks.push(...next),
    opened,
    sentMessages: () => sent,
  };
};
