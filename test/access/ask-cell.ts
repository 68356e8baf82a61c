/** One cell of the matrix of rights: what becomes of the call of one caller about one subject. */
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { Hello } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { createGrpcClient } from "@holdfast/shared/grpc/client";
import { noticeFrame } from "@holdfast/shared/grpc/stream/frames";
import { ServeWireDefinition } from "@holdfast/shared/grpc/stream/serve-wire";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { dialAgent } from "../support/controller/dial-agent.ts";
import type { AccessWorld } from "./access-world.ts";
import { type Column, callers, namesOf, type Subject } from "./callers.ts";
import { type Method, onAgent, overStream, streams } from "./methods.ts";

/** `reached`: its handler, whatever that answers. */
export type CellOutcome = "reached" | "denied" | "unknown caller";

const log = createMemoryLogger();

const outcomeOf = (caller: Column, error: unknown): CellOutcome => {
  if (!isHoldfastError(error)) throw error;
  if (error.kind === "unauthenticated") return "unknown caller";
  // Its connection is ended before any call.
  if (caller === "foreign CA" && error.kind === "unavailable") return "unknown caller";
  // Not more than a few calls a second are looked at.
  if (caller === "no certificate" && error.message.includes("calls without a certificate")) return "unknown caller";
  if (error.reason === "PERMISSION_DENIED") return "denied";
  if (["OVERLOADED", "DEADLINE", "INTERNAL", "UNKNOWN"].includes(error.reason)) throw error;
  return "reached";
};

const settled = async (caller: Column, act: () => Promise<unknown>): Promise<CellOutcome> => {
  try {
    await act();
    return "reached";
  } catch (error) {
    return outcomeOf(caller, error);
  }
};

/** The first message, or the end, of a stream. */
const first = async (messages: AsyncIterable<unknown>): Promise<void> => {
  await messages[Symbol.asyncIterator]().next();
};

type Ask = (request: object, options: object) => Promise<unknown> | AsyncIterable<unknown>;

const askUnary = async (
  client: unknown,
  caller: Column,
  { key, responseStream }: Method,
  request: object,
): Promise<CellOutcome> => {
  const end = new AbortController();
  const call = (client as Readonly<Record<string, Ask>>)[key];
  if (call === undefined) throw new Error(`there is no method ${key}`);
  try {
    return await settled(caller, async () => {
      const answer = call(request, { signal: end.signal, deadlineMs: 20_000 });
      if (!responseStream) await answer;
      // A watch that is let in and has nothing to say may say nothing.
      else await Promise.race([first(answer as AsyncIterable<unknown>), new Promise((wake) => setTimeout(wake, 250))]);
    });
  } finally {
    end.abort();
  }
};

const askStream = async (
  { transport, addressesFor }: AccessWorld,
  method: Method,
  caller: Column,
  subject: Subject,
) => {
  const channel = transport.dial(caller, addressesFor(caller).streams);
  const wire = createGrpcClient(ServeWireDefinition, channel, { log });
  const end = new AbortController();
  const { node } = namesOf[subject];
  const hello = noticeFrame(Hello.encode({ node, instance: "i1", stream: `${caller} ${subject}` }).finish());
  async function* once<T>(message: T): AsyncGenerator<T> {
    yield message;
  }
  try {
    return await settled(caller, () =>
      method.key === "serve"
        ? first(wire.serve(once(hello), { signal: end.signal }))
        : first(wire.transfer(once({ open: { node, stream: "s" } }), { signal: end.signal })),
    );
  } finally {
    end.abort();
  }
};

export const askCell = async (
  world: AccessWorld,
  method: Method,
  caller: Column,
  subject: Subject,
): Promise<CellOutcome> => {
  const { definition } = method;
  const isOneOf = (some: readonly unknown[]): boolean => some.includes(definition);
  if (isOneOf(streams)) return await askStream(world, method, caller, subject);
  const request = method.request(subject);
  if (isOneOf(overStream)) {
    // A stream is the node's of its hello (LS1): a caller that is no node says the one that it asks about.
    const node = callers[caller].role === "node" ? callers[caller].name : namesOf[subject].node;
    const { streams: address } = world.addressesFor(caller);
    const agent = dialAgent(address, { node, channel: world.transport.dial(caller, address) });
    const refused = agent.over.then((error) =>
      error === undefined ? new Promise<never>(() => undefined) : outcomeOf(caller, error),
    );
    try {
      return await Promise.race([askUnary(agent.link, caller, method, request), refused]);
    } finally {
      agent.cut();
    }
  }
  const { agent, controller } = world.addressesFor(caller);
  const channel = world.transport.dial(caller, isOneOf(onAgent) ? agent : controller);
  return await askUnary(createGrpcClient(definition as never, channel, { log }), caller, method, request);
};

/** What the caller is told, in words: the answer, or the first messages of a watch, or the refusal. */
export const answerOf = async (
  world: AccessWorld,
  { definition, key, responseStream }: Method,
  caller: Column,
  request: object,
): Promise<string> => {
  const channel = world.transport.dial(caller, world.addressesFor(caller).controller);
  const client = createGrpcClient(definition as never, channel, { log });
  const end = new AbortController();
  const said: unknown[] = [];
  const timer = setTimeout(() => end.abort(), 500);
  try {
    const answer = (client as Readonly<Record<string, Ask>>)[key]?.(request, { signal: end.signal });
    if (responseStream) for await (const message of answer as AsyncIterable<unknown>) said.push(message);
    else said.push(await answer);
  } catch (error) {
    if (isHoldfastError(error)) said.push(error.reason, error.message, error.metadata);
  } finally {
    clearTimeout(timer);
  }
  return JSON.stringify(said, (_key, value: unknown) => (typeof value === "bigint" ? String(value) : value));
};
