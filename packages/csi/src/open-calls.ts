/**
 * The calls of one plugin's sockets that change something and have no answer of the plugin yet, whoever still waits for them.
 *
 * H1 One call of a subject at a time, by whichever of its names: beside one that is open none is sent. H2 The same call again joins the one
 * that is open. H3 A deadline or a caller that goes away ends the wait and not the call; the plugin is told no deadline, because a server
 * library would end the stream at that time while the handler goes on. H4 A call is over with its answer, or with its connection. H5 A
 * volume that CreateVolume names is not there for good while a DeleteVolume of it is open, and beside a DeleteVolume of what this name was
 * given last none is sent. H6 At most `maxOpen` are open; one more is not sent. Calls whose callers have gone take no place of those that a
 * caller waits for. H7 A call with an order leaves only as order-gate.ts lets it, in the turn in which it is asked: no lane lies between
 * the gate and the socket. One without an order leaves as if there were no gate, and moves nothing in it. H8 A subject is quiet when it was
 * raised to an order, has seen no higher one, has no open call and is in no doubt (call-doubts.ts), all in the turn of the answer: no call
 * of that order or of a lower one leaves afterwards. H9 A call that is over without the plugin's own status leaves its subject in doubt:
 * the plugin may be working on it.
 */
import { hash } from "node:crypto";
import type { CommitOrder } from "@holdfast/model/call-order";
import type { Clock } from "@holdfast/shared/async/clock";
import { createCallDoubts, type SocketListener } from "./call-doubts.ts";
import { type CallEnd, endOf, finalOf } from "./call-end.ts";
import { type CallNotes, keepsNothing, noteWords } from "./call-notes.ts";
import { gateSubject, gateSubjects } from "./gate-subject.ts";
import { codecOf, type RequestOf } from "./messages.ts";
import type { UnaryMethod } from "./methods.ts";
import { createOrderGate } from "./order-gate.ts";
import type { CsiTransport, WireFailure, WireReply } from "./transport.ts";

export interface OpenCalls {
  /**
   * The same transport, to that process of the plugin, under these rules; calls that were sent over another one stay open. `left` is called
   * when the last caller of an open call of this transport goes away, and the function that it answers when that call has ended.
   */
  over(transport: CsiTransport, listener: SocketListener, left?: (words: string) => () => void): CsiTransport;
  /** Raises the subject to the order, and then waits at most `waitMs` for the end of its open call (H8); with a path only of one at that socket. */
  quiesce(
    subject: string,
    order: CommitOrder,
    waitMs: number,
    signal: AbortSignal,
    socketPath?: string,
  ): Promise<Quiesced>;
  /** The calls without an answer, and those in doubt (H9). */
  standing(): readonly StandingCall[];
}

/** A call that may be open at the plugin. */
export interface StandingCall {
  readonly subject: string;
  /** Of its order; empty: it came without one. */
  readonly opId: string;
  /** For people. */
  readonly words: string;
}

export type Quiesced =
  | { readonly idle: true }
  /** `superseded`: the subject has seen a higher order, and nothing was raised or is proven for the order that was asked. */
  | {
      readonly idle: false;
      readonly words: string;
      readonly superseded?: true;
      /** No call is open, and one is over without the plugin's own status: a call that is made now may tell more. */
      readonly doubt?: true;
    };

interface OpenCall {
  readonly method: UnaryMethod;
  /** As it was sent: most calls are never compared with another. */
  readonly request: object;
  readonly words: string;
  readonly reply: Promise<WireReply>;
  readonly socketPath: string;
  readonly left: () => void;
  /** It passed the gate with this order, be it as one that joined it; undefined: it came without one. */
  opId: string | undefined;
}

interface Way {
  readonly transport: CsiTransport;
  readonly listener: SocketListener;
  readonly onLeft: (words: string) => () => void;
}

export interface OpenCallsOptions {
  readonly clock: Clock;
  readonly maxOpen?: number;
  /** As of the order gate. */
  readonly lowestGen?: (() => number) | undefined;
  readonly notes?: CallNotes | undefined;
}

export function createOpenCalls(options: OpenCallsOptions): OpenCalls {
  const { clock, maxOpen = 1_024, lowestGen, notes = keepsNothing } = options;
  const open = new Map<string, OpenCall>();
  const gate = createOrderGate<WireReply>({ lowestGen });
  /** H5: by the subject of a create, the subject of what it was answered last. */
  const made = new Map<string, string>();
  const doubts = createCallDoubts({ clock });

  const begin = (
    { transport, listener, onLeft }: Way,
    method: UnaryMethod,
    request: Uint8Array,
    metadata: Readonly<Record<string, string>>,
    subject: string,
    decoded: object,
  ): OpenCall => {
    const { signal } = new AbortController();
    const alone = new AbortController();
    const beside = method === "CreateVolume" ? deletions() : undefined;
    let end: CallEnd = "lost";
    const reply = transport
      .unary(method, request, { signal, deadlineMs: undefined, metadata, left: alone.signal }) // H3
      .then((answer) => {
        end = endOf(answer);
        if (method === "CreateVolume") noteMade(subject, answer);
        return beside === undefined ? answer : unlessDeleted(answer, beside);
      });
    const words = `${method} for ${subject}`;
    let ended: (() => void) | undefined;
    const left = (): void => {
      if (open.get(subject) !== call) return;
      ended ??= onLeft(words);
      alone.abort(); // H6
    };
    const call: OpenCall = {
      method,
      request: decoded,
      words,
      reply,
      socketPath: listener.socketPath,
      left,
      opId: undefined,
    };
    open.set(subject, call);
    const over = (answer?: WireReply): void => {
      open.delete(subject); // H4
      if (call.opId !== undefined) gate.ended(subject, answer && finalOf(method, answer)); // H7
      const same = { subject, listener, text: () => hash("sha256", textOf(method, decoded)) };
      if (end === "ended") doubts.ended(same);
      else if (end !== "not-sent") doubts.add({ ...same, words, told: end === "aborted", opId: call.opId ?? "" }); // H9
      if (end === "ended" && method === "ControllerUnpublishVolume")
        notes.detached(noteWords(method, decoded, subject) ?? "");
      if (doubts.of(subject) === undefined) notes.strike(subject); // K2
      ended?.();
    };
    reply.then(over, () => over());
    return call;
  };

  const noteMade = (subject: string, answer: WireReply): void => {
    const id = "bytes" in answer ? createdId(answer.bytes) : undefined;
    if (id === undefined) return;
    made.delete(subject);
    made.set(subject, gateSubject("volume", { id }));
    const oldest = made.size > maxOpen ? made.keys().next().value : undefined;
    if (oldest !== undefined) made.delete(oldest);
  };

  const deletions = (): readonly string[] =>
    [...open].flatMap(([subject, { method }]) => (method === "DeleteVolume" ? [subject] : []));

  /** H5: also of a delete that was open when the create left (`beside`), and was answered before the create was. */
  const unlessDeleted = (answer: WireReply, beside: readonly string[]): WireReply => {
    const id = "bytes" in answer ? createdId(answer.bytes) : undefined;
    if (id === undefined || ![...beside, ...deletions()].includes(`volume ${id}`)) return answer;
    return lost("ABORTED", `CreateVolume was answered with volume ${id}, of which a delete had no answer yet`);
  };

  const openAt = (subject: string, socketPath: string | undefined): OpenCall | undefined => {
    const standing = open.get(subject);
    return standing?.socketPath === (socketPath ?? standing?.socketPath) ? standing : undefined;
  };

  /** H8 */
  const standingOf = (subject: string, order: CommitOrder, at: string | undefined): Quiesced => {
    const higher = gate.raise(subject, order);
    if (higher !== undefined) return { idle: false, words: `${subject}: ${higher}`, superseded: true };
    const standing = openAt(subject, at);
    if (standing !== undefined) return { idle: false, words: `${standing.words} has no answer of the plugin yet` };
    const words = doubts.of(subject, at);
    return words === undefined ? { idle: true } : { idle: false, words, doubt: true };
  };

  return {
    async quiesce(subject, order, waitMs, signal, at) {
      const before = standingOf(subject, order, at);
      const standing = openAt(subject, at);
      if (standing === undefined || "superseded" in before || signal.aborted) return before;
      await answerWithin(standing.reply, clock, waitMs, signal).catch(() => undefined);
      return standingOf(subject, order, at);
    },
    standing: () => [
      ...[...open].map(([subject, { words, opId = "" }]) => ({
        subject,
        opId,
        words: `${words} has no answer of the plugin yet`,
      })),
      ...doubts.all(),
    ],
    over: (transport, listener, onLeft = () => () => undefined) => ({
      async unary(method, request, options) {
        const { signal, deadlineMs, metadata, order } = options;
        if (gateSubjects[method] === undefined || deadlineMs === undefined)
          return transport.unary(method, request, options);
        if (signal.aborted) return unsent("CANCELLED", "given up before it was sent");
        const decoded = codecOf(method).decodeRequest(request);
        const subject = subjectOf(method, decoded);
        const judged = order && gate.judge(subject, method, order); // H7
        if (judged?.kind === "stale")
          return { failure: { code: "ABORTED", message: judged.why, sent: false, stale: true } };
        if (judged?.kind === "answered") return judged.answer;
        const names = [subject, ...(order?.knownAs ?? []), made.get(subject) ?? ""];
        const standing = names.map((name) => open.get(name)).find((one) => one !== undefined);
        if (standing !== undefined && textOf(standing.method, standing.request) !== textOf(method, decoded))
          return unsent(
            "ABORTED",
            `${standing.words} has no answer of the plugin yet, and no other call is sent beside it`,
          ); // H1
        if (standing === undefined && open.size >= maxOpen)
          return unsent(
            "RESOURCE_EXHAUSTED",
            `${open.size} calls have no answer of the plugin yet, and no other is sent: restart the instance that hangs`,
          ); // H6
        const noted = order && noteWords(method, decoded, subject);
        try {
          if (noted !== undefined) notes.note({ subject, opId: order?.opId ?? "", words: noted }); // K1
        } catch (error) {
          return unsent("UNAVAILABLE", `the call cannot be noted beside the plugin: ${String(error)}`);
        }
        const call = standing ?? begin({ transport, listener, onLeft }, method, request, metadata, subject, decoded); // H2
        if (order !== undefined) {
          call.opId = order.opId;
          gate.passed(subject, method, order);
        }
        const reply = await answerWithin(call.reply, clock, deadlineMs, signal);
        call.left();
        return reply;
      },
      stream: transport.stream,
    }),
  };
}

/** H3 */
function answerWithin(
  reply: Promise<WireReply>,
  clock: Clock,
  deadlineMs: number,
  signal: AbortSignal,
): Promise<WireReply> {
  return new Promise((resolve, reject) => {
    const gaveUp = (): void => end(lost("CANCELLED", "given up while in flight; the work goes on"));
    const stopTimer = clock.timer(deadlineMs, () =>
      end(lost("DEADLINE_EXCEEDED", `no answer within ${deadlineMs} ms; the call is still open at the plugin`)),
    );
    const end = (result: WireReply): void => {
      stopTimer();
      signal.removeEventListener("abort", gaveUp);
      resolve(result);
    };
    signal.addEventListener("abort", gaveUp, { once: true });
    reply.then(end, reject);
  });
}

/** A reply that cannot be read is found out by the caller. */
function createdId(reply: Uint8Array): string | undefined {
  try {
    return codecOf("CreateVolume").decode(reply).volume?.volumeId;
  } catch {
    return undefined;
  }
}

function lost(code: WireFailure["code"], message: string): WireReply {
  return { failure: { code, message, sent: true } };
}

function unsent(code: WireFailure["code"], message: string): WireReply {
  return { failure: { code, message, sent: false } };
}

function subjectOf<M extends UnaryMethod>(method: M, request: RequestOf<M>): string {
  return gateSubjects[method]?.(request) ?? method;
}

/** All that the call says but its secrets: another version of a key asks for the same. */
function textOf(method: UnaryMethod, request: object): string {
  return JSON.stringify([method, request], (key, value: unknown) => {
    if (key === "secrets") return undefined;
    if (typeof value === "bigint") return String(value);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value;
  });
}
