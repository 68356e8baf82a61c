/**
 * The mark `(holdfast.v1.required)` of the protos against the services: a request without a field that has it is refused by the name of that field, and
 * one that has all of them is refused for no other that is missing.
 */
import { readFileSync } from "node:fs";
import path from "node:path";
import { createFileRegistry, type DescMethod, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { TrustServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/trust";
import type { Identity } from "@holdfast/shared/grpc/identity";
import type { GrpcServer } from "@holdfast/shared/grpc/server";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import type { TsProtoServiceDefinition } from "nice-grpc";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { isRequired } from "../scripts/docs/is-required.ts";
import { apiSamples } from "./fuzz/api-corpus.ts";
import { createWorld } from "./support/controller/world.ts";
import { addWorldServices, worldTrustDomain } from "./support/controller/world-services.ts";
import { everyRow } from "./support/every-row.ts";

const image = path.resolve(import.meta.dirname, "../packages/shared/src/gen/image.binpb");
const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(image)));
const methods = new Map(
  [...registry].flatMap((desc) =>
    desc.kind === "service" && desc.file.proto.package === "holdfast.v1"
      ? desc.methods.map((method): readonly [string, DescMethod] => [`/${desc.typeName}/${method.name}`, method])
      : [],
  ),
);
const requiredOf = (method: string) => (methods.get(method)?.input.fields ?? []).filter(isRequired);

/** Demanded beside another field, or as one of several, as their comments say: without a mark. */
const onCondition: Readonly<Record<string, readonly string[]>> = {
  ReconcileWorkloads: ["node", "live"],
  AdoptVolume: ["confirm"],
  FenceNode: ["expected_node_epoch"],
  TakeOver: ["volume"],
  ClearBar: ["volume"],
};

type Handler = (request: unknown, context: unknown) => unknown;
const handlers = new Map<string, Handler>();
let close = async (): Promise<void> => undefined;
beforeAll(async () => {
  const world = await createWorld({ nodes: ["n1", "n2"] });
  const add: GrpcServer["add"] = (definition, implementation) => {
    const { methods: of, fullName } = definition as TsProtoServiceDefinition;
    const own = implementation as unknown as Readonly<Record<string, Handler>>;
    for (const [key, { name }] of Object.entries(of)) {
      const handler = own[key];
      if (handler !== undefined) handlers.set(`/${fullName}/${name}`, handler.bind(own));
    }
  };
  addWorldServices({ add }, world, createMemoryLogger(), { currentTraceparent: () => undefined } as never);
  close = async () => await world.close();
});
afterAll(() => close());

const scheduler: Identity = { role: "scheduler", name: "s1" };
/** Certificates are renewed for those who have one. */
const node: Identity = {
  ...({ role: "node", name: "n1" } as const),
  certificate: { trustDomain: worldTrustDomain, serial: "01", notBefore: 0, notAfter: 1, fingerprint: "" },
};
const callerOf = (method: string): Identity =>
  method.startsWith(`/${TrustServiceDefinition.fullName}/`) ? node : scheduler;

/** The fields that are named when a request is refused for what it says; what waits, or ends otherwise, names none. */
const fieldsRefused = async (method: string, request: unknown): Promise<readonly string[]> => {
  const handler = handlers.get(method);
  if (handler === undefined) throw new Error(`${method} is not served`);
  const gone = new AbortController();
  const context = {
    identity: callerOf(method),
    signal: gone.signal,
    remainingMs: () => 1_000,
    requestId: "r",
    metadata: new Map(),
  };
  const run = async (): Promise<unknown> => {
    try {
      const answer = handler(request, context);
      if (typeof answer === "object" && answer !== null && Symbol.asyncIterator in answer)
        for await (const _ of answer as AsyncIterable<unknown>) break;
      else await answer;
    } catch (error) {
      return error;
    }
    return undefined;
  };
  const asked = run();
  let settled = false;
  void asked.then(() => {
    settled = true;
  });
  for (let turn = 0; turn < 3_000 && !settled; turn += 1) await new Promise(setImmediate);
  gone.abort();
  const error = settled ? await asked : undefined;
  return isHoldfastError(error) && error.kind === "invalid"
    ? error.violations.map(({ field }) => /^[a-z_]*/.exec(field)?.[0] ?? "")
    : [];
};

const rows = apiSamples.map((sample) => ({ ...sample, request: sample.request as Readonly<Record<string, unknown>> }));
const nameOf = ({ path: method }: (typeof rows)[number]): string => method;

describe("the mark of required fields", () => {
  test("is on those of many requests", () => {
    expect([...methods.keys()].filter((method) => requiredOf(method).length > 0).length).toBeGreaterThan(40);
  });

  test("stands where a request without the field is refused by its name", async () => {
    for (const { path: method, type, request } of rows)
      for (const { name, localName } of requiredOf(method)) {
        expect(request[localName], `a sample of ${method} has ${name}`).toBeDefined();
        const { [localName]: _without, ...rest } = request;
        expect(await fieldsRefused(method, type.fromPartial(rest as never)), `${method} without ${name}`).toContain(
          name,
        );
      }
  });

  test("stands on each that is demanded in every case", () =>
    everyRow(rows, nameOf, async ({ path: method, type, request }) => {
      const marked = new Set(requiredOf(method).map(({ localName }) => localName));
      const least = Object.fromEntries(Object.entries(request).filter(([name]) => marked.has(name)));
      const allowed = new Set([
        ...requiredOf(method).map(({ name }) => name),
        ...(onCondition[method.split("/")[2] ?? ""] ?? []),
      ]);
      const found = await fieldsRefused(method, type.fromPartial(least as never));
      expect(found.filter((field) => !allowed.has(field))).toEqual([]);
    }));
});
