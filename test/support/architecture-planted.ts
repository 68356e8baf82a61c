/** A violation put in by hand: the rule that must catch it, the files it takes, and the words of the finding. */
export type Planted = { rule: string; files: Record<string, string>; expect: RegExp };

const domain = "services/controller/src/domain/claim.ts";
const api = "services/controller/src/api/claim-service.ts";
const volumes = "services/node-agent/src/volumes/volume-actor.ts";

/** One file at a path that no other rule minds. */
const one = (path: string, text: string) => ({ [path]: text });
const lines = (count: number) => `export const claim = 1;\n${"// why\n".repeat(count - 1)}`;

export const planted: readonly Planted[] = [
  { rule: "R1", files: one(domain, 'import { readFileSync } from "node:fs";'), expect: /imports node:fs/ },
  { rule: "R1", files: one(domain, 'import type { Store } from "../ports.ts";'), expect: /imports \.\.\/ports\.ts/ },
  {
    rule: "R1",
    files: one(domain, 'import {\n  type Volume,\n} from\n  "@holdfast/shared/gen/holdfast/v1/volume";'),
    expect: /imports @holdfast\/shared\/gen/,
  },
  {
    rule: "R1",
    files: one(domain, "export const claimAge = (since: number) => Date.now() - since;"),
    expect: /uses Date\.now/,
  },
  {
    rule: "R1",
    files: one(domain, "export const claimName = () => `c-${Math.random()}`;"),
    expect: /uses Math\.random/,
  },

  {
    rule: "R1",
    files: one("packages/model/src/epoch.ts", 'import { createEmitter } from "@holdfast/shared/async/emitter";'),
    expect: /imports @holdfast\/shared\/async\/emitter/,
  },
  {
    rule: "R1",
    files: one("packages/model/src/epoch.ts", "export const epochNow = () => Date.now();"),
    expect: /uses Date\.now/,
  },

  {
    rule: "R2",
    files: one("services/controller/src/ports.ts", 'import type { Redis } from "ioredis";'),
    expect: /imports ioredis/,
  },
  {
    rule: "R2",
    files: one("services/controller/src/ports.ts", 'import { claimKey } from "./domain/claim.ts";'),
    expect: /imports \.\/domain\/claim/,
  },
  {
    rule: "R2",
    files: one("services/controller/src/ports.ts", 'import { zeroEpoch } from "@holdfast/model/epoch";'),
    expect: /imports @holdfast\/model\/epoch/,
  },

  {
    rule: "R3",
    files: one(api, 'import { createRedisStore } from "../store/redis/redis-store.ts";'),
    expect: /adapter \.\.\/store\/redis/,
  },
  {
    rule: "R3",
    files: one(api, 'const store = await import("../store/sqlite/sqlite-store.ts");'),
    expect: /adapter \.\.\/store\/sqlite/,
  },
  {
    rule: "R3",
    files: one("services/controller/src/reconcile/steps.ts", 'import { connect } from "node:net";'),
    expect: /reaches the outside world by node:net/,
  },
  {
    rule: "R3",
    files: {
      [volumes]: 'import { openJournal } from "./journal.ts";',
      "services/node-agent/src/volumes/journal.ts": 'import { open } from "node:fs/promises";',
    },
    expect: /adapter \.\/journal\.ts/,
  },

  {
    rule: "R3",
    files: one("packages/local-driver/src/node/stage.ts", 'import { coveringMount } from "../host/covering-mount.ts";'),
    expect: /adapter \.\.\/host\/covering-mount/,
  },
  {
    rule: "R3",
    files: one("packages/local-driver/src/controller/create-volume.ts", 'import { open } from "node:fs/promises";'),
    expect: /reaches the outside world by node:fs/,
  },

  { rule: "R4", files: one(api, 'import { Redis } from "ioredis";'), expect: /ioredis/ },
  {
    rule: "R4",
    files: one("packages/shared/src/trust/authority.ts", 'const x509 = await import("@peculiar/x509");'),
    expect: /@peculiar\/x509/,
  },
  {
    rule: "R4",
    files: one("services/controller/src/store/redis/redis-store.ts", 'import { DatabaseSync } from "node:sqlite";'),
    expect: /node:sqlite/,
  },
  {
    rule: "R4",
    files: one(api, 'import { BatchSpanProcessor } from "@opentelemetry/sdk-trace";'),
    expect: /OpenTelemetry SDK/,
  },
  {
    rule: "R4",
    files: one("packages/shared/src/log/logger.ts", 'import { Counter } from "prom-client";'),
    expect: /prom-client/,
  },
  { rule: "R4", files: one(api, 'import type { Logger } from "pino";'), expect: /pino/ },
  {
    rule: "R4",
    files: one("packages/csi/src/plugin-connection.ts", 'import { Metadata } from "@grpc/grpc-js";'),
    expect: /grpc-js/,
  },
  {
    rule: "R4",
    files: one("services/controller/src/reconcile/reconciler.ts", 'import { Status } from "nice-grpc-common";'),
    expect: /nice-grpc/,
  },

  {
    rule: "R5",
    files: one(
      "services/controller/src/reconcile/reconciler.ts",
      'import type { Claim } from "@holdfast/shared/gen/holdfast/v1/claim";',
    ),
    expect: /generated type/,
  },
  {
    rule: "R4",
    files: one("packages/local-driver/src/controller/volumes.ts", 'import { ServerError } from "nice-grpc-common";'),
    expect: /nice-grpc/,
  },

  {
    rule: "R5",
    files: one(
      "packages/local-driver/src/node/stage.ts",
      'import type { Volume } from "@holdfast/shared/gen/csi/v1/csi";',
    ),
    expect: /generated type/,
  },
  {
    rule: "R5",
    files: one(
      volumes,
      'export type { Permit } from "../../../../packages/shared/src/gen/holdfast/internal/v1/agent.ts";',
    ),
    expect: /generated type/,
  },

  { rule: "R6", files: one(api, "export const cell = process.env.HOLDFAST_CELL;"), expect: /process is touched/ },
  {
    rule: "R6",
    files: one("packages/local-driver/src/app.ts", "export const root = process.getuid?.() === 0;"),
    expect: /process is touched/,
  },
  { rule: "R6", files: one(api, 'import process from "node:process";'), expect: /node:process is imported/ },
  { rule: "R6", files: one(api, 'import { createApp } from "../app.ts";'), expect: /composition root/ },
  {
    rule: "R6",
    files: one(api, 'import { a } from "../nodes/a.ts";\nimport { b } from "../plugins/b.ts";'),
    expect: /knows nodes, plugins besides api/,
  },

  {
    rule: "R7",
    files: one(api, 'import { journal } from "@holdfast/node-agent/volumes/journal";'),
    expect: /node-agent/,
  },
  {
    rule: "R7",
    files: one("packages/shared/src/lifecycle.ts", 'import { callPolicy } from "@holdfast/csi/call-policy";'),
    expect: /csi/,
  },
  {
    rule: "R7",
    files: one("packages/csi/src/relay.ts", 'import { config } from "../../../services/controller/src/config.ts";'),
    expect: /config/,
  },
  {
    rule: "R7",
    files: one("packages/local-driver/src/api/check-request.ts", 'import { limits } from "@holdfast/csi/field-rules";'),
    expect: /field-rules/,
  },
  {
    rule: "R7",
    files: one(volumes, 'import { createApp } from "@holdfast/local-driver/app";'),
    expect: /local-driver/,
  },
  {
    rule: "R7",
    files: one(volumes, 'import { createSimPlugin } from "@holdfast/sim-plugin/sim-plugin";'),
    expect: /sim-plugin/,
  },

  {
    rule: "R8-cycles",
    files: {
      "packages/csi/src/a.ts": 'import { b } from "./b.ts";',
      "packages/csi/src/b.ts": 'import type { C } from "./c.ts";',
      "packages/csi/src/c.ts": 'export { a } from "@holdfast/csi/a";',
    },
    expect:
      /cycle: packages\/csi\/src\/a\.ts → packages\/csi\/src\/b\.ts → packages\/csi\/src\/c\.ts → packages\/csi\/src\/a\.ts/,
  },
  { rule: "R8-default", files: one(domain, "export default function claim() {}"), expect: /default export/ },
  {
    rule: "R8-barrel",
    files: one("packages/csi/src/index.ts", '// all of it\nexport { a } from "./a.ts";\nexport * from "./b.ts";\n'),
    expect: /only re-exports/,
  },
  {
    rule: "R8-barrel",
    files: one("packages/csi/src/index.ts", 'import { a } from "./a.ts";\nexport { a };\n'),
    expect: /only re-exports/,
  },
  { rule: "R8-any", files: one(domain, "export function claim(input: Record<string, any>) {}"), expect: /type any/ },
  { rule: "R8-any", files: one(domain, "export const claim = (input as any).claim;"), expect: /type any/ },
  { rule: "R8-state", files: one(api, "let count = 0;\nexport const claimService = () => count++;"), expect: /let c/ },
  { rule: "R8-state", files: one(api, "const seen = new Map<string, number>();"), expect: /new Map/ },
  {
    rule: "R8-state",
    files: one(api, 'const seen = new Set(["a"]);\nexport const claimService = (id: string) => seen.add(id);'),
    expect: /new Set/,
  },
  { rule: "R8-state", files: one(api, 'export const claimServices = new Map([["a", 1]]);'), expect: /new Map/ },
  { rule: "R8-class", files: one(api, "export class ClaimService {}"), expect: /class ClaimService/ },
  {
    rule: "R8-class",
    files: one(api, "export class ClaimService extends EventEmitter {}"),
    expect: /class ClaimService/,
  },

  {
    rule: "R9-name",
    files: one("packages/csi/src/callPolicy.ts", "export const callPolicy = {};"),
    expect: /not kebab-case/,
  },
  {
    rule: "R9-name",
    files: one("packages/csi/src/call-policy.ts", "export const timeouts = { a: 1 };"),
    expect: /it exports timeouts/,
  },
  { rule: "R9-size", files: one(domain, lines(301)), expect: /301 lines; 300/ },
  { rule: "R9-size", files: one("test/claims.test.ts", lines(601)), expect: /601 lines; 600/ },
  { rule: "R9-debt", files: one(domain, `export const claim = 1; // ${"TO"}DO later`), expect: /open end/ },
];

/** Files that look like violations and are none: a rule that cries wolf is switched off sooner or later. */
export const innocent: Record<string, string> = {
  "services/controller/src/domain/claim.ts": `
    import { type Mode, modes } from "./access.ts";
    import { zeroEpoch } from "@holdfast/model/epoch";
    // Not a clock: Date.now() stands in a comment, and so does import "node:fs".
    export const claimHint = "import { x } from 'node:fs'; process.exit(Date.now())";
    export const claimPattern = /["'\`]import process.env any/;
    export type Claim = { any?: Mode; process: string; node?: { process?: boolean } };
    export const isClaim = (it: Claim) => modes.some((mode) => mode === it.any);
  `,
  "services/controller/src/domain/access.ts":
    'export type Mode = "a";\nexport const accessModes: readonly Mode[] = [];\nexport const modes = accessModes;',
  "services/controller/src/api/claim-service.ts": `
    import { Status } from "nice-grpc-common";
    import type { Claim as Wire } from "@holdfast/shared/gen/holdfast/v1/claim";
    import { accessModes } from "../domain/access.ts";
    const order: ReadonlyMap<string, number> = new Map([["a", 1]]);
    const known = new Set(["a"]);
    export function createClaimService({ signal }: { signal: AbortSignal }) {
      let calls = 0;
      const seen = new Set<string>();
      return { call: (it: Wire) => [AbortSignal.any([signal]), Status.OK, accessModes, order, known.has("a"), seen, \`\${calls++} \${it}\`] };
    }
    export class ClaimServiceError<T> extends Error {}
  `,
  "services/controller/src/store/redis/redis-store.ts":
    'import { Redis } from "ioredis";\nexport const createRedisStore = () => new Redis();',
  "services/controller/src/app.ts":
    'import { createRedisStore } from "./store/redis/redis-store.ts";\nimport { createClaimService } from "./api/claim-service.ts";\nimport { x } from "./nodes/x.ts";',
  "services/controller/src/main.ts":
    'import { createApp } from "./app.ts";\nprocess.exitCode = await createApp(process.env);',
  "test/claims.test.ts":
    'import { createSimPlugin } from "@holdfast/sim-plugin/sim-plugin";\nimport { Redis } from "ioredis";\nlet redis: Redis;',
};
