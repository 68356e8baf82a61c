/** Requests of the controller's API through its real services, over a store and backends in memory: refused whole, or stored as they were asked. */

import { TrustServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/trust";
import type { Identity } from "@holdfast/shared/grpc/identity";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { plainKeys } from "@holdfast/shared/plain-keys";
import { afterAll, beforeAll } from "vitest";
import { createWorld } from "../support/controller/world.ts";
import { addWorldServices, worldTrustDomain } from "../support/controller/world-services.ts";
import { apiSamples } from "./api-corpus.ts";
import { fuzzTests } from "./fuzz-tests.ts";
import { type Edge, edge, idPattern, type RequestInput, requestTarget, shortened } from "./request-target.ts";

const scheduler: Identity = { role: "scheduler", name: "s1" };
/** Certificates are renewed for those who have one. */
const node: Identity = {
  ...({ role: "node", name: "n1" } as const),
  certificate: { trustDomain: worldTrustDomain, serial: "01", notBefore: 0, notAfter: 1, fingerprint: "" },
};
const callerOf = (service: string): Identity => (service === TrustServiceDefinition.fullName ? node : scheduler);

const log = createMemoryLogger();

// As the programs begin.
let restore = (): void => undefined;
beforeAll(() => {
  restore = plainKeys();
});
afterAll(() => restore());

fuzzTests<Edge, RequestInput>({
  name: "the edge of the controller's API",
  full: 100_000,
  quick: 700,
  findWithin: 4_000,
  subject: edge,
  target: (change) =>
    requestTarget(
      {
        samples: apiSamples,
        callerOf,
        async serve(server) {
          const world = await createWorld({ nodes: ["n1", "n2"] });
          addWorldServices(server, world, log, { currentTraceparent: () => undefined } as never);
          return {
            async settle() {
              for (let turn = 0; turn < 5; turn += 1) await world.clock.advance(1);
            },
            writes: world.store.commits,
            close: world.close,
          };
        },
      },
      change,
    ),
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
