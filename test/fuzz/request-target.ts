/** Requests of real services, refused whole or taken as they were asked. */

import { CallHead } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { createCallSurround } from "@holdfast/shared/grpc/call-surround";
import type { Identity } from "@holdfast/shared/grpc/identity";
import type { GrpcServer } from "@holdfast/shared/grpc/server";
import { createServedMethods, type ServedMethod } from "@holdfast/shared/grpc/stream/served-methods";
import { ToldStatus } from "@holdfast/shared/grpc/stream/wire-status";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import type { TsProtoServiceDefinition } from "nice-grpc";
import type { FuzzTarget } from "./fuzz-tests.ts";
import { otherMessage } from "./mutate-message.ts";
import type { Sample } from "./samples.ts";

/** Changes a request before the service sees it: a check that is forgotten corrects what it should have refused. */
export type Edge = (request: Record<string, unknown>, method: string) => Record<string, unknown>;
export const edge: Edge = (request) => request;

export interface RequestInput {
  readonly sample: Sample;
  readonly bytes: Uint8Array;
}

/** What stands behind the services. */
export interface Inside {
  /** Comes to rest before the next request. */
  settle(): Promise<void>;
  /** How often something was written. */
  writes(): number;
  close(): Promise<void>;
}

export interface RequestTargetOptions {
  readonly samples: readonly Sample[];
  /** Adds the services. */
  serve(server: Pick<GrpcServer, "add">): Promise<Inside>;
  readonly callerOf: (service: string) => Identity;
  /** Fields that others judge. */
  readonly handedOn?: readonly string[];
}

const log = createMemoryLogger();

const serve = async (change: Edge, { serve, callerOf }: RequestTargetOptions) => {
  const methods = new Map<string, ServedMethod>();
  const add: GrpcServer["add"] = (definition, implementation) => {
    const { methods: of, fullName } = definition as TsProtoServiceDefinition;
    const own = implementation as unknown as Record<string, (request: unknown, context: unknown) => unknown>;
    const changed = Object.fromEntries(
      Object.entries(own).map(([key, handler]) => [
        key,
        (request: unknown, context: unknown) =>
          handler.call(own, change(request as Record<string, unknown>, key), context),
      ]),
    );
    const served = createServedMethods({
      definition: definition as TsProtoServiceDefinition,
      implementation: changed as never,
      surround: createCallSurround({ log, address: () => "fuzz", identity: () => callerOf(fullName) }),
    });
    for (const { name } of Object.values(of)) {
      const method = served.find(`/${fullName}/${name}`);
      if (method !== undefined) methods.set(`/${fullName}/${name}`, method);
    }
  };
  return { methods, inside: await serve({ add }) };
};

type Served = Awaited<ReturnType<typeof serve>>;
type Answer = { readonly status: string } | { readonly messages: number } | "waits";

/** What waits for something that does not come is given up, as its caller would. */
const ask = async ({ methods }: Served, { sample, bytes }: RequestInput): Promise<Answer> => {
  const method = methods.get(sample.path);
  if (method === undefined) throw new Error(`${sample.path} is not served`);
  const gone = new AbortController();
  const caller = { head: CallHead.fromPartial({ seq: 1n }), peer: "fuzz", signal: gone.signal };
  const run = async (): Promise<Answer> => {
    try {
      if (!method.streams) await method.answer(bytes, caller);
      else for await (const _ of method.answers(bytes, caller)) break;
      return { messages: 1 };
    } catch (error) {
      if (!(error instanceof ToldStatus)) throw error;
      return { status: Buffer.from(error.status).toString("latin1") };
    }
  };
  const answered = run();
  let settled = false;
  void answered.then(
    () => {
      settled = true;
    },
    () => {
      settled = true;
    },
  );
  for (let turn = 0; turn < 60 && !settled; turn += 1) await new Promise(setImmediate);
  if (settled) return await answered;
  gone.abort();
  await answered;
  return "waits";
};

export const idPattern = /^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$/;
const ids = /^(namespace|namespaces|id|node|snapshot|volume|alias)$/;
const paths = /^(socketDir|publishDir)$/;
const maps = /^(labels|parameters|mutableParameters|context|segments|inlineSecrets|values)$/;

/** What no request may hold, by the comments of the API alone. */
const faultIn = (value: unknown, handedOn: readonly string[], name = ""): string | undefined => {
  if (handedOn.includes(name)) return undefined;
  if (typeof value === "bigint" && /(Bytes|^max|epoch|^volumes$|^snapshots$)/i.test(name))
    return value >= 0n && value <= BigInt(Number.MAX_SAFE_INTEGER) ? undefined : `${name} is ${value}`;
  if (typeof value === "string" && ids.test(name) && value !== "")
    return idPattern.test(value) && !value.includes("..") ? undefined : `${name} is ${JSON.stringify(value)}`;
  if (typeof value === "string" && paths.test(name) && value !== "")
    return /^(\/[^/\p{Cc}]+)+$/u.test(value) && !/\/\.{1,2}(\/|$)/.test(value)
      ? undefined
      : `${name} is ${JSON.stringify(value)}`;
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return undefined;
  if (maps.test(name) && Object.values(value).every((item) => typeof item === "string")) {
    const bytes = Buffer.byteLength(Object.entries(value).flat().join(""));
    return bytes > 4096 ? `${name} has ${bytes} bytes` : undefined;
  }
  for (const [key, item] of Object.entries(value)) {
    const fault = faultIn(item, handedOn, Array.isArray(value) ? name : key);
    if (fault !== undefined) return fault;
  }
  return undefined;
};

const decoded = ({ sample: { type }, bytes }: RequestInput): unknown => {
  try {
    return type.decode(bytes);
  } catch {
    return undefined;
  }
};

const judged = (
  input: RequestInput,
  answer: Answer,
  writes: number,
  handedOn: readonly string[] = [],
): { readonly wrong?: string } => {
  if (answer !== "waits" && "status" in answer) {
    if (answer.status.includes("internal error")) return { wrong: `it ended with ${JSON.stringify(log.lines.at(-1))}` };
    const invalid = answer.status.charCodeAt(0) === 8 && answer.status.charCodeAt(1) === 3;
    return invalid && writes > 0 ? { wrong: "INVALID_ARGUMENT, and something was written" } : {};
  }
  const fault = input.sample.writes ? faultIn(decoded(input), handedOn) : undefined;
  return fault === undefined ? {} : { wrong: `accepted, although ${fault}` };
};

/** As many share one world: what was stored before meets what comes after. */
const inputsAWorld = 400;

export const shortened = (request: Record<string, unknown>, field: string, to: (value: unknown) => unknown) =>
  field in request ? { ...request, [field]: to(request[field]) } : request;

export const requestTarget = async (options: RequestTargetOptions, change: Edge): Promise<FuzzTarget<RequestInput>> => {
  const { samples } = options;
  const written = samples.filter(({ writes }) => writes);
  let served = await serve(change, options);
  let left = inputsAWorld;
  return {
    next(random) {
      const sample = random.pick(random.chance(0.7) ? written : samples);
      return { sample, bytes: otherMessage(sample.type, sample.request, random.pick(samples).request, random) };
    },
    async examine(input) {
      if (left-- === 0) {
        await served.inside.close();
        served = await serve(change, options);
        left = inputsAWorld;
      }
      await served.inside.settle();
      log.clear();
      const before = served.inside.writes();
      const answer = await ask(served, input);
      const verdict = judged(input, answer, served.inside.writes() - before, options.handedOn);
      const unread = typeof answer === "object" && "status" in answer && answer.status.includes("cannot be read");
      return { reached: !unread, accepted: answer === "waits" || "messages" in answer, ...verdict };
    },
    show: ({ sample, bytes }) => `${sample.path} ${Buffer.from(bytes).toString("base64")}`,
  };
};
