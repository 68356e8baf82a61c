/**
 * The streams of agents as they come to this controller. Over each of them the agent asks AgentLinkService and is asked AgentService.
 *
 * LS1 Who speaks on a stream is the node of its hello, and nobody else. LS2 A stream is the node's once its Register has succeeded for the
 * node and the process of its hello, and no order goes over it before that answer. LS3 When a stream ends, for whatever reason, nothing of
 * it is left: who waits is woken, calls have failed or are aborted, and Serve ends after the last handler. LS4 What cannot be read ends its
 * stream and no other. LS5 A body goes to the stream that it names, of the node that sends it.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { createPace } from "@holdfast/shared/async/pace";
import { linkSignals, waitFor } from "@holdfast/shared/async/signals";
import { HoldfastError, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import type { TransferChunk } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import type { CallContext, Implementation } from "@holdfast/shared/grpc/call-context";
import { type CallSurround, shuttingDown } from "@holdfast/shared/grpc/call-surround";
import { peerHeader } from "@holdfast/shared/grpc/caller-interceptor";
import type { ServeWireDefinition } from "@holdfast/shared/grpc/stream/serve-wire";
import { transferBytesPerSecond } from "@holdfast/shared/grpc/stream/transfer-chunks";
import type { Logger } from "@holdfast/shared/log/logger";
import { createAdmissions } from "./admissions.ts";
import type { AgentStreams } from "./agent-streams.ts";
import { type AgentLink, type OpenStream, openStream } from "./open-stream.ts";
import { readHello } from "./read-hello.ts";
import { renewBeforeEnd } from "./renew-before-end.ts";

/** Throws when the caller may not speak for the node. */
export interface LinkAdmission {
  serve(identity: CallContext["identity"], hello: { readonly node: string }): void;
  transfer(identity: CallContext["identity"], open: { readonly node: string }): void;
}

export interface LinkServiceOptions {
  readonly admission: LinkAdmission;
  readonly streams: Pick<AgentStreams, "add" | "remove">;
  /** What agents may ask. */
  readonly link: AgentLink;
  readonly surround: Pick<CallSurround, "service">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly endOfTurn: (then: () => void) => void;
  /** When the certificate of this controller ends; without it: it has none. */
  readonly ownEnd?: () => number | undefined;
  readonly admissionsPerSecond?: number;
  /** How long a stream may take to say whose it is, and a body to meet its call. */
  readonly patienceMs?: number;
}

export interface LinkService extends Implementation<typeof ServeWireDefinition> {
  /** Tells every agent to turn elsewhere, takes no stream any more, and ends those that are there as soon as nothing is under way. */
  leave(graceMs: number): Promise<void>;
  load(): LinkLoad;
}

/** Of all streams that are open, registered or not. */
export interface LinkLoad {
  readonly streams: number;
  readonly asked: number;
  readonly served: number;
  readonly queuedBytes: number;
}

/** As many as wait for ten seconds. */
const admissionSeconds = 10;
/** Of one node: one, one that replaces it, and some that the network has swallowed and nobody has noticed yet. */
const maxStreamsPerNode = 16;
const cut = "its connection ended, or the agent gave it up";
/** Between two looks at whether anything is under way. */
const restMs = 20;

export const createLinkService = (options: LinkServiceOptions): LinkService => {
  const { admission, clock, log, ownEnd, admissionsPerSecond = 300, patienceMs = 10_000 } = options;
  const maxWaiting = admissionsPerSecond * admissionSeconds;
  const admissions = createAdmissions({ clock, perSecond: admissionsPerSecond, maxWaiting });
  const transferPace = createPace({ clock, perSecond: transferBytesPerSecond });
  const nodes = new Map<string, Map<string, OpenStream>>();
  const all = (): readonly OpenStream[] => [...nodes.values()].flatMap((own) => [...own.values()]);
  let leaving = false;

  const enter = (stream: OpenStream): void => {
    const { node, id } = stream.hello;
    const own = nodes.get(node) ?? new Map<string, OpenStream>();
    if (own.has(id)) throw invalidArgument([{ field: "hello.stream", description: "is open already" }]);
    if (own.size >= maxStreamsPerNode) throw tooMany(node, own.size);
    own.set(id, stream);
    nodes.set(node, own);
  };
  const exit = (stream: OpenStream): void => {
    const { node, id } = stream.hello;
    const own = nodes.get(node);
    own?.delete(id);
    if (own?.size === 0) nodes.delete(node);
  };

  /** The first message of a call; its agent has dialled, and owes it. */
  const first = async <T>(reader: AsyncIterator<T>, signal: AbortSignal): Promise<T> => {
    const waiting = linkSignals(signal);
    const stop = clock.timer(patienceMs, () => waiting.abort(silent(patienceMs)));
    try {
      const step = await waitFor(reader.next(), waiting.signal);
      if (step.done) throw invalidArgument([{ field: "frame", description: "is required: it ended before its first" }]);
      return step.value;
    } finally {
      stop();
      waiting.dispose();
    }
  };

  /** Waits for nothing but the next frame (LS4). */
  const pump = async (reader: AsyncIterator<Uint8Array>, stream: OpenStream): Promise<void> => {
    try {
      for (let step = await reader.next(); !step.done; step = await reader.next()) stream.take(step.value);
      stream.end("the agent has ended it");
    } catch {
      stream.end(stream.failure()?.message ?? cut);
    }
  };

  return {
    async *serve(frames, context) {
      const { signal } = context;
      if (leaving) throw shuttingDown();
      await admissions.enter(signal);
      const reader = frames[Symbol.asyncIterator]();
      const hello = readHello(await first(reader, signal));
      admission.serve(context.identity, hello); // LS1
      if (leaving) throw shuttingDown();
      const certificate = context.metadata.get(peerHeader);
      const stream = openStream({ ...options, hello, certificate, patienceMs, transferPace });
      enter(stream);
      // LS3: whoever waits for the next frame to send does not learn by itself that the peer is gone.
      const gone = (): void => stream.end(cut);
      signal.addEventListener("abort", gone, { once: true });
      if (signal.aborted) gone();
      void pump(reader, stream);
      const notAfter = Math.min(context.identity.certificate?.notAfter ?? Infinity, ownEnd?.() ?? Infinity);
      const stopAsking = renewBeforeEnd({ clock, notAfter, reconnect: stream.reconnect });
      try {
        for await (const frame of stream.frames) yield frame;
        const failure = stream.failure();
        if (failure === undefined) return;
        log.warn("a stream of an agent was ended: what it sends cannot be read", {
          node: hello.node,
          error: failure,
        });
        throw failure; // LS4
      } finally {
        stopAsking();
        signal.removeEventListener("abort", gone);
        stream.end("its call has ended");
        exit(stream);
        await stream.ended; // LS3
      }
    },

    async *transfer(chunks, context) {
      const reader = chunks[Symbol.asyncIterator]();
      const chunk = await first(reader, context.signal);
      const { open } = chunk;
      if (open === undefined) throw invalidArgument([{ field: "open", description: "is required in the first chunk" }]);
      admission.transfer(context.identity, open); // LS5
      const stream = nodes.get(open.node)?.get(open.stream);
      if (stream === undefined) throw noStream(open.node, open.stream);
      yield* stream.arrived(open, begunWith(chunk, reader), context.signal);
    },

    async leave(graceMs) {
      leaving = true;
      const until = clock.monotonic() + graceMs;
      for (const stream of all()) stream.reconnect("the controller is going down", graceMs);
      for (;;) {
        const late = clock.monotonic() >= until;
        for (const stream of all()) if (late || stream.idle()) stream.end("the controller is going down");
        if (late || nodes.size === 0) return;
        await clock.sleep(restMs, new AbortController().signal);
      }
    },

    load() {
      const sum = { streams: 0, asked: 0, served: 0, queuedBytes: 0 };
      for (const stream of all()) {
        const { asked, served, queuedBytes } = stream.load();
        sum.streams += 1;
        sum.asked += asked;
        sum.served += served;
        sum.queuedBytes += queuedBytes;
      }
      return sum;
    },
  };
};

async function* begunWith(
  chunk: TransferChunk,
  rest: AsyncIterator<TransferChunk>,
): AsyncGenerator<TransferChunk, undefined> {
  yield chunk;
  yield* { [Symbol.asyncIterator]: () => rest };
}

const silent = (ms: number): HoldfastError =>
  new HoldfastError({
    kind: "deadline",
    reason: "DEADLINE",
    message: `nothing was said within ${ms} ms; open it again, and say whose it is`,
  });

const tooMany = (node: string, count: number): HoldfastError =>
  new HoldfastError({
    kind: "exhausted",
    reason: "OVERLOADED",
    message: `node ${node} has ${count} streams here already; end some, or wait until they are found dead`,
    metadata: { node },
  });

const noStream = (node: string, stream: string): HoldfastError =>
  new HoldfastError({
    kind: "not_found",
    reason: "STREAM_UNKNOWN",
    message: `node ${node} has no stream ${stream} here; its calls have failed with it`,
    metadata: { node },
  });
