/** Frames between agents and controllers: what reaches the inside of either was said by the frame, and is what its records can hold. */

import { HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { readFrame } from "@holdfast/shared/grpc/stream/frames";
import type { ServedMethods } from "@holdfast/shared/grpc/stream/served-methods";
import { createStreamCalls } from "@holdfast/shared/grpc/stream/stream-calls";
import type { SeededRandom } from "../local-driver/seeded-random.ts";
import { fuzzTests } from "./fuzz-tests.ts";
import { otherMessage } from "./mutate-message.ts";
import { inside, log, type StreamEnd, streamEnds } from "./stream-corpus.ts";

interface Input {
  readonly end: StreamEnd;
  readonly bytes: Uint8Array;
}
interface Seen {
  readonly seq: number;
  readonly path: string;
}
/** Changes which call is served, its body, or what of it reaches the inside. */
interface Taker {
  readonly call: (seen: Seen) => Seen;
  readonly body: (bytes: Uint8Array) => Uint8Array;
  readonly inside: (given: unknown) => unknown;
}
const same = <T>(value: T): T => value;
const taker: Taker = { call: same, body: same, inside: same };

const next = (random: SeededRandom): Input => {
  const end = random.pick(streamEnds);
  const frame = random.pick(end.frames);
  return { end, bytes: otherMessage(end.type, frame, random.pick(end.frames), random) };
};

const notOfCalls = new Set(["request", "response"]);
const ids = /^(namespace|volume|node)$/;
const idPattern = /^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$/;

const faultIn = (value: unknown, name = ""): string | undefined => {
  // Of a clock that stands before 1970.
  if (name === "since" || name === "deadline") return Number.isNaN(value) ? `${name} is no time` : undefined;
  if (typeof value === "number") return Number.isSafeInteger(value) && value >= 0 ? undefined : `${name} is ${value}`;
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? `${name} is no time` : undefined;
  if (typeof value === "string")
    return ids.test(name) && value !== "" && (!idPattern.test(value) || value.includes(".."))
      ? `${name} is ${JSON.stringify(value)}`
      : undefined;
  if (typeof value !== "object" || value === null || value instanceof Uint8Array || notOfCalls.has(name))
    return undefined;
  for (const [key, item] of Object.entries(value)) {
    const fault = faultIn(item, key);
    if (fault !== undefined) return fault;
  }
  return undefined;
};

type Call = { readonly head?: { readonly seq: bigint } } & Record<string, unknown>;
interface Frame {
  readonly request?: Call;
  readonly order?: Call;
}
const decoded = ({ type }: StreamEnd, bytes: Uint8Array): Frame | undefined => {
  try {
    const frame = type.decode(bytes);
    // What is written in another way than our own encoder writes it, the generated code may read otherwise.
    return Buffer.compare(type.encode(frame as never).finish(), bytes) === 0 ? (frame as Frame) : undefined;
  } catch {
    return undefined;
  }
};

const watched = ({ served }: StreamEnd, change: Taker, seen: Seen[]): ServedMethods => ({
  service: served.service,
  find(path) {
    const method = served.find(path);
    if (method === undefined) return undefined;
    const note = (seq: bigint): void => void seen.push(change.call({ seq: Number(seq), path }));
    return method.streams
      ? {
          streams: true,
          answers(request, caller) {
            note(caller.head.seq);
            return method.answers(change.body(request), caller);
          },
        }
      : {
          streams: false,
          answer(request, caller) {
            note(caller.head.seq);
            return method.answer(change.body(request), caller);
          },
        };
  },
});

/** The generated code reads the same frame: the call has the number and a body of the kind that was served. */
const saysOtherwise = (end: StreamEnd, bytes: Uint8Array, { seq, path }: Seen): string | undefined => {
  const frame = decoded(end, bytes);
  if (frame === undefined) return undefined;
  const call = frame.request ?? frame.order;
  if (call === undefined) return `${path} was served, and the frame holds no call`;
  if (Number(call.head?.seq ?? 0n) !== seq) return `call ${call.head?.seq} was served as ${seq}`;
  const kind = path.slice(path.lastIndexOf("/") + 1);
  const field = `${kind[0]?.toLowerCase()}${kind.slice(1)}`;
  return call[field] === undefined ? `${path} was served, and the frame holds no ${field}` : undefined;
};

const noTransfers = {
  send: async () => undefined,
  // biome-ignore lint/correctness/useYield: nothing comes
  receive: async function* () {
    throw new HoldfastError({ kind: "unavailable", reason: "TRANSFER_CUT", message: "no transfer comes" });
  },
} as never;

const internal = (frames: readonly Uint8Array[]): string | undefined => {
  for (const bytes of frames) {
    const frame = readFrame(bytes);
    if (
      frame.kind === "answer" &&
      (frame.head.failure?.length ?? 0) > 0 &&
      Buffer.from(frame.head.failure ?? []).includes("internal error")
    )
      return `the call ended with an error that was not meant: ${JSON.stringify(log.lines.at(-1))}`;
  }
  return undefined;
};

const told =
  (turn: (key: string, value: unknown) => unknown) =>
  (given: unknown): unknown =>
    JSON.parse(
      JSON.stringify(given ?? null, (key, value: unknown) =>
        typeof value === "bigint" ? `${value}` : turn(key, value),
      ),
    );

fuzzTests<Taker, Input>({
  name: "what takes the frames of a stream",
  full: 150_000,
  quick: 1_500,
  findWithin: 6_000,
  subject: taker,
  target: (change) => ({
    next,
    async examine({ end, bytes }) {
      inside.length = 0;
      log.clear();
      const seen: Seen[] = [];
      const calls = createStreamCalls({
        side: end.side,
        peer: "fuzz",
        served: watched(end, change, seen),
        transfers: noTransfers,
        onNotice: () => undefined,
      });
      const sent: Uint8Array[] = [];
      const sending = (async () => {
        for await (const frame of calls.frames) sent.push(frame);
      })();
      try {
        calls.take(bytes);
      } catch (error) {
        calls.end("malformed");
        if (!isHoldfastError(error)) throw error;
        return { reached: false, accepted: false };
      }
      for (let turn = 0; turn < 50 && calls.load().served > 0; turn += 1) await new Promise(setImmediate);
      const hangs = calls.load().served > 0 ? "a call does not end" : undefined;
      await new Promise(setImmediate);
      calls.end("done");
      await sending;
      const [call] = seen;
      const wrong =
        hangs ??
        internal(sent) ??
        faultIn(inside.map(change.inside)) ??
        (call === undefined ? undefined : saysOtherwise(end, bytes, call));
      return { reached: call !== undefined, accepted: inside.length > 0, wrong };
    },
    show: ({ end, bytes }) => `${end.side} ${Buffer.from(bytes).toString("base64")}`,
  }),
  planted: [
    ["serves a call under another number", { ...taker, call: ({ seq, path }) => ({ seq: seq % 2 ** 31, path }) }],
    [
      "serves one call for another",
      { ...taker, call: ({ seq, path }) => ({ seq, path: path.replace("Acknowledge", "Report") }) },
    ],
    [
      "falls over an empty body",
      {
        ...taker,
        body(bytes) {
          if (bytes.length < 4) throw new TypeError("it has no fields");
          return bytes;
        },
      },
    ],
    ["reads half a number", { ...taker, inside: told((key, value) => (key === "ctr" && value === 0 ? 0.5 : value)) }],
    [
      "takes a name with a path in it",
      {
        ...taker,
        inside: told((key, value) => (key === "volume" && String(value).length === 1 ? `../${value}` : value)),
      },
    ],
  ],
});
