/** Requests of the controller's API through its real services, over a store and backends in memory: refused whole, or stored as they were asked. */

import { CallHead } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { TrustServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/trust";
import { createCallSurround } from "@holdfast/shared/grpc/call-surround";
import type { Identity } from "@holdfast/shared/grpc/identity";
import type { GrpcServer } from "@holdfast/shared/grpc/server";
import { createServedMethods, type ServedMethod } from "@holdfast/shared/grpc/stream/served-methods";
import { ToldStatus } from "@holdfast/shared/grpc/stream/wire-status";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { plainKeys } from "@holdfast/shared/plain-keys";
import type { TsProtoServiceDefinition } from "nice-grpc";
import { afterAll, beforeAll } from "vitest";
import type { SeededRandom } from "../local-driver/seeded-random.ts";
import { createWorld, type World } from "../support/controller/world.ts";
import { addWorldServices, worldTrustDomain } from "../support/controller/world-services.ts";
import { type ApiSample, apiSamples } from "./api-corpus.ts";
import { fuzzTests } from "./fuzz-tests.ts";
import { otherMessage } from "./mutate-message.ts";

/** Changes a request before the service sees it: a check that is forgotten corrects what it should have refused. */
type Edge = (request: Record<string, unknown>, method: string) => Record<string, unknown>;
const edge: Edge = (request) => request;

interface Input {
  readonly sample: ApiSample;
  readonly bytes: Uint8Array;
}

const log = createMemoryLogger();

const scheduler: Identity = { role: "scheduler", name: "s1" };
/** Certificates are renewed for those who have one. */
const node: Identity = {
  ...({ role: "node", name: "n1" } as const),
  certificate: { trustDomain: worldTrustDomain, serial: "01", notBefore: 0, notAfter: 1, fingerprint: "" },
};
const callerOf = (service: string): Identity => (service === TrustServiceDefinition.fullName ? node : scheduler);

const serve = async (change: Edge) => {
  const world = await createWorld({ nodes: ["n1", "n2"] });
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
  addWorldServices({ add }, world, log, { currentTraceparent: () => undefined } as never);
  return { world, methods };
};

type Served = Awaited<ReturnType<typeof serve>>;
type Answer = { readonly status: string } | { readonly messages: number } | "waits";

/** What waits for something that does not come is given up, as its caller would. */
const ask = async ({ methods }: Served, { sample, bytes }: Input): Promise<Answer> => {
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

const idPattern = /^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$/;
const ids = /^(namespace|namespaces|id|node|snapshot)$/;
const maps = /^(labels|parameters|mutableParameters|context|segments|inlineSecrets|values)$/;

/** What no request may hold, by the comments of the API alone. */
const faultIn = (value: unknown, name = ""): string | undefined => {
  if (typeof value === "bigint" && /(Bytes|^max|epoch|^volumes$|^snapshots$)/i.test(name))
    return value >= 0n && value <= BigInt(Number.MAX_SAFE_INTEGER) ? undefined : `${name} is ${value}`;
  if (typeof value === "string" && ids.test(name) && value !== "")
    return idPattern.test(value) && !value.includes("..") ? undefined : `${name} is ${JSON.stringify(value)}`;
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return undefined;
  if (maps.test(name) && Object.values(value).every((item) => typeof item === "string")) {
    const bytes = Buffer.byteLength(Object.entries(value).flat().join(""));
    return bytes > 4096 ? `${name} has ${bytes} bytes` : undefined;
  }
  for (const [key, item] of Object.entries(value)) {
    const fault = faultIn(item, Array.isArray(value) ? name : key);
    if (fault !== undefined) return fault;
  }
  return undefined;
};

const decoded = ({ sample: { type }, bytes }: Input): unknown => {
  try {
    return type.decode(bytes);
  } catch {
    return undefined;
  }
};

const judged = (input: Input, answer: Answer, commits: number): { readonly wrong?: string } => {
  if (answer !== "waits" && "status" in answer) {
    if (answer.status.includes("internal error")) return { wrong: `it ended with ${JSON.stringify(log.lines.at(-1))}` };
    const invalid = answer.status.charCodeAt(0) === 8 && answer.status.charCodeAt(1) === 3;
    return invalid && commits > 0 ? { wrong: "INVALID_ARGUMENT, and something was written" } : {};
  }
  const fault = input.sample.writes ? faultIn(decoded(input)) : undefined;
  return fault === undefined ? {} : { wrong: `accepted, although ${fault}` };
};

const written = apiSamples.filter(({ writes }) => writes);
const next = (random: SeededRandom): Input => {
  const sample = random.pick(random.chance(0.7) ? written : apiSamples);
  return { sample, bytes: otherMessage(sample.type, sample.request, random.pick(apiSamples).request, random) };
};

/** As many share one world: what was stored before meets what comes after. */
const inputsAWorld = 400;

const shortened = (request: Record<string, unknown>, field: string, to: (value: unknown) => unknown) =>
  field in request ? { ...request, [field]: to(request[field]) } : request;

// As the programs begin.
let restore = (): void => undefined;
beforeAll(() => {
  restore = plainKeys();
});
afterAll(() => restore());

fuzzTests<Edge, Input>({
  name: "the edge of the controller's API",
  full: 100_000,
  quick: 700,
  findWithin: 4_000,
  subject: edge,
  target: async (change) => {
    let served = await serve(change);
    let left = inputsAWorld;
    const settle = async (world: World): Promise<void> => {
      for (let turn = 0; turn < 5; turn += 1) await world.clock.advance(1);
    };
    return {
      next,
      async examine(input) {
        if (left-- === 0) {
          await served.world.close();
          served = await serve(change);
          left = inputsAWorld;
        }
        await settle(served.world);
        log.clear();
        const before = served.world.store.commits();
        const answer = await ask(served, input);
        const verdict = judged(input, answer, served.world.store.commits() - before);
        const unread = typeof answer === "object" && "status" in answer && answer.status.includes("cannot be read");
        return { reached: !unread, accepted: answer === "waits" || "messages" in answer, ...verdict };
      },
      show: ({ sample, bytes }) => `${sample.path} ${Buffer.from(bytes).toString("base64")}`,
    };
  },
  planted: [
    [
      "takes an id for another one that fits",
      (request) => shortened(request, "id", (id) => (idPattern.test(String(id)) ? id : "fits")),
    ],
    [
      "takes a namespace with a path in it",
      (request) => shortened(request, "namespace", (name) => (/[./]/.test(String(name)) ? "default" : name)),
    ],
    [
      "takes a size below zero for none",
      (request) =>
        shortened(request, "capacity", (range) => {
          const { requiredBytes = 0n, limitBytes = 0n } = (range ?? {}) as Record<string, bigint>;
          const most = (value: bigint) => (value < 0n ? 0n : value);
          return { requiredBytes: most(requiredBytes), limitBytes: most(limitBytes) };
        }),
    ],
    [
      "rounds a size that no number holds",
      (request) =>
        shortened(request, "capacity", (range) => {
          const { requiredBytes = 0n, limitBytes = 0n } = (range ?? {}) as Record<string, bigint>;
          const most = (value: bigint) => (value > BigInt(Number.MAX_SAFE_INTEGER) ? 0n : value);
          return { requiredBytes: most(requiredBytes), limitBytes: most(limitBytes) };
        }),
    ],
    [
      "takes a quota below zero for none",
      (request) =>
        shortened(request, "limits", (limits) => {
          const { volumes, ...rest } = (limits ?? {}) as { readonly volumes?: bigint };
          return volumes !== undefined && volumes < 0n ? { ...rest, volumes: 0n } : limits;
        }),
    ],
    [
      "falls over a request without capabilities",
      (request) => {
        if (Array.isArray(request["capabilities"]) && request["capabilities"].length === 0)
          throw new TypeError("capabilities[0] is undefined");
        return request;
      },
    ],
  ],
});
