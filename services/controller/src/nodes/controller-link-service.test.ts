import { type HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { AgentLinkServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { VerificationScope } from "@holdfast/shared/gen/holdfast/v1/common";
import { NodeState } from "@holdfast/shared/gen/holdfast/v1/node";
import { PluginHealth, PluginRole, Support } from "@holdfast/shared/gen/holdfast/v1/plugin";
import type { GrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger, type MemoryLogger } from "@holdfast/shared/log/logger";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createLinkHub, type LinkHub } from "../../../../test/support/controller/link-hub.ts";
import type { NodePlugin, NodeRecord } from "../domain/node/node.ts";
import type { ReportedClaim, ReportedNews, Reporter } from "./acknowledgements.ts";
import { checkNews } from "./check-told.ts";
import { createControllerLinkService } from "./controller-link-service.ts";
import type { AgentHeader } from "./convert.ts";
import type { AgentReport } from "./node-registry-model.ts";

let hub: LinkHub;
let log: MemoryLogger;
let registered: [AgentHeader, readonly NodePlugin[]][];
let reports: AgentReport[];
let told: [string, Reporter, readonly (ReportedClaim | ReportedNews)[]][];

const record = (header: Pick<AgentHeader, "name">): NodeRecord => ({
  name: header.name,
  machineId: "m",
  bootId: "b",
  journalUid: "j",
  instance: "i",
  nodeEpoch: 7,
  state: "QUARANTINED",
  address: "a:1",
  version: "",
  verificationScope: "host",
  plugins: [],
  registeredAt: 0,
  updatedAt: 0,
});

beforeEach(async () => {
  registered = [];
  reports = [];
  told = [];
  log = createMemoryLogger();
  const service = createControllerLinkService({
    registry: {
      async register(header, plugins) {
        registered.push([header, plugins]);
        return record(header);
      },
      async report(report) {
        reports.push(report);
        return { known: true, record: record({ name: report.node }) };
      },
      get: (name) => (name === "n1" ? { record: record({ name }), live: "alive" } : undefined),
    },
    acknowledgements: {
      async released(node, claims) {
        told.push(["released", node, claims]);
        return claims.map(({ claimUid }) => claimUid).slice(0, 1);
      },
      async lost(node, claims) {
        told.push(["lost", node, claims]);
      },
    },
    news: {
      async take(reporter, news) {
        told.push(["news", reporter, news]);
      },
    },
    log,
    controllerId: "c1",
    clock: { now: () => 1_700_000_000_000 },
    clusterUid: async () => "cluster-1",
  });
  hub = await createLinkHub({ link: service });
});
afterEach(() => hub.close());

/** Over a stream of that node. */
const as = (node = "n1"): GrpcClient<typeof AgentLinkServiceDefinition> => hub.agent({ node }).link;

const header = {
  name: "n1",
  machineId: "machine-1",
  bootId: "boot-1",
  instance: "i1",
  journalUid: "journal-1",
  lockId: "8:1",
  hostIdentity: "host-1",
  version: "0.1.0",
  rootDir: "/var/lib/holdfast",
  verificationScope: VerificationScope.VERIFICATION_SCOPE_HOST,
  nodeEpoch: 6n,
  clusterUid: "cluster-1",
  fingerprintRevision: 12n,
  promisedGen: 0n,
};

const fingerprint = {
  plugin: "csi.example",
  version: "2",
  instanceId: "alloc-1",
  role: PluginRole.PLUGIN_ROLE_MONOLITH,
  health: PluginHealth.PLUGIN_HEALTH_HEALTHY,
  nodeId: "id-n1",
  maxVolumes: 39n,
  topology: { segments: { zone: "a" } },
  capabilities: {
    plugin: { CONTROLLER_SERVICE: Support.SUPPORT_YES },
    node: { STAGE_UNSTAGE_VOLUME: Support.SUPPORT_NO, EXPAND_VOLUME: Support.SUPPORT_UNSPECIFIED },
  },
};

const failure = async (run: Promise<unknown>): Promise<HoldfastError> => {
  const error: unknown = await run.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!isHoldfastError(error)) throw new Error(`no refusal but ${String(error)}`);
  return error;
};

describe("Register", () => {
  test("takes a header and its fingerprints, and answers what has to be journalled", async () => {
    expect(await as().register({ header, plugins: [fingerprint] })).toEqual({
      nodeEpoch: 7n,
      controllerId: "c1",
      clusterUid: "cluster-1",
      state: NodeState.NODE_STATE_QUARANTINED,
    });
    expect(registered).toEqual([
      [
        {
          name: "n1",
          machineId: "machine-1",
          bootId: "boot-1",
          instance: "i1",
          journalUid: "journal-1",
          lockId: "8:1",
          hostIdentity: "host-1",
          version: "0.1.0",
          verificationScope: "host",
          nodeEpoch: 6,
          clusterUid: "cluster-1",
          fingerprintRevision: 12,
        },
        [
          {
            name: "csi.example",
            version: "2",
            instance: "alloc-1",
            role: "MONOLITH",
            health: "HEALTHY",
            healthMessage: "",
            nodeId: "id-n1",
            maxVolumes: 39,
            topology: { zone: "a" },
            capabilities: {
              "plugin:CONTROLLER_SERVICE": "yes",
              "node:STAGE_UNSTAGE_VOLUME": "no",
              "node:EXPAND_VOLUME": "unknown",
            },
          },
        ],
      ],
    ]);
  });

  test("an instance that came back as somebody else is unhealthy, whatever it says", async () => {
    const blocked = { reason: "PLUGIN_IDENTITY_CHANGED", message: "it was called otherwise" };
    await as().register({ header, plugins: [{ ...fingerprint, blocked }] });
    expect(registered[0]?.[1]).toMatchObject([{ health: "UNHEALTHY", healthMessage: "it was called otherwise" }]);
  });

  test("of what makes no sense comes back with every violation", async () => {
    const error = await failure(
      as().register({
        header: { name: "n1", instance: "i1", journalUid: "x".repeat(200) },
        plugins: [{ plugin: "", nodeId: "n".repeat(300) }],
      }),
    );
    expect(error.violations.map(({ field }) => field).sort()).toEqual(
      [
        "header.machine_id",
        "header.boot_id",
        "header.journal_uid",
        "plugins[0].plugin",
        "plugins[0].instance_id",
        "plugins[0].node_id",
      ].sort(),
    );
    expect((await failure(as().register({ plugins: [fingerprint] }))).violations).toMatchObject([{ field: "header" }]);
    expect(registered).toEqual([]);
  });
});

describe("Report", () => {
  test("hands on what changed", async () => {
    const answer = await as().report({
      node: "n1",
      instance: "i1",
      baseRevision: 12n,
      revision: 13n,
      changed: [fingerprint],
      removed: [{ plugin: "old", instanceId: "alloc-0" }],
      health: { accepting: false, message: "full" },
    });
    expect(answer).toEqual({ known: true, nodeEpoch: 7n, state: NodeState.NODE_STATE_QUARANTINED });
    expect(reports).toMatchObject([
      {
        node: "n1",
        instance: "i1",
        baseRevision: 12,
        revision: 13,
        changed: [{ name: "csi.example", instance: "alloc-1" }],
        removed: [{ plugin: "old", instance: "alloc-0" }],
        accepting: false,
        message: "full",
      },
    ]);
  });

  test("[I9] for another node is refused", async () => {
    expect(await failure(as().report({ node: "n2", instance: "i1" }))).toMatchObject({
      reason: "PERMISSION_DENIED",
    });
    expect(reports).toEqual([]);
  });
});

describe("Acknowledge", () => {
  const claim = {
    namespace: "ns",
    volume: "data",
    volumeUid: "volume-1",
    claimUid: "c1",
    epoch: { gen: 1n, ctr: 9n },
  };
  const report = { ...claim, epoch: { gen: 1, ctr: 9 } };

  test("answers which releases may be forgotten, and logs what happened", async () => {
    const answer = await as().acknowledge({
      node: "n1",
      instance: "i1",
      nodeEpoch: 7n,
      released: [claim, { ...claim, claimUid: "c2" }],
      lost: [{ ...claim, claimUid: "c3" }],
      events: [{ reason: "ORPHAN_FOUND", message: "a mount", namespace: "ns", volume: "data" }],
    });
    expect(answer).toEqual({ forgottenClaimUids: ["c1"] });
    expect(told).toEqual([
      ["lost", { node: "n1", nodeEpoch: 7, instance: "i1" }, [{ ...report, claimUid: "c3" }]],
      ["released", { node: "n1", nodeEpoch: 7, instance: "i1" }, [report, { ...report, claimUid: "c2" }]],
    ]);
    expect(log.lines).toMatchObject([{ fields: { event: "ORPHAN_FOUND", volume: "ns/data" } }]);
  });

  test("of a node that never registered here is refused", async () => {
    const error = await failure(as("n9").acknowledge({ node: "n9", released: [claim] }));
    expect(error.reason).toBe("NODE_MISMATCH");
    expect(told).toEqual([]);
  });

  test("of what makes no sense comes back with every violation", async () => {
    const error = await failure(as().acknowledge({ node: "n1", released: [{}], lost: [{ namespace: "ns" }] }));
    expect(error.violations.map(({ field }) => field)).toEqual([
      "released[0].namespace",
      "released[0].volume",
      "lost[0].volume",
    ]);
  });
});

describe("Greet", () => {
  test("tells who answers, what the clock says there, and whether the node is known", async () => {
    const now = new Date(1_700_000_000_000);
    expect(await as().greet({ node: "n1" })).toEqual({ controllerId: "c1", now, known: true });
    expect(await as("n9").greet({ node: "n9" })).toMatchObject({ known: false });
    expect(await failure(as().greet({ node: "n9" }))).toMatchObject({ reason: "PERMISSION_DENIED" });
  });
});

test("numbers that would be rounded, and times that no calendar has, are refused and nothing is told", async () => {
  const large = 2n ** 53n;
  const claim = { namespace: "ns", volume: "v", volumeUid: "u", claimUid: "k", epoch: { gen: 1n, ctr: large } };
  const fieldsOf = async (run: Promise<unknown>) => (await failure(run)).violations.map(({ field }) => field);
  const header2 = { ...header, nodeEpoch: large, fingerprintRevision: large };
  const negative = { ...fingerprint, maxVolumes: -1n };
  expect(await fieldsOf(as().register({ header: header2, plugins: [negative] }))).toEqual([
    "header.node_epoch",
    "header.fingerprint_revision",
    "plugins[0].max_volumes",
  ]);
  const said = { node: "n1", instance: "i1", nodeEpoch: 7n };
  expect(await fieldsOf(as().acknowledge({ ...said, nodeEpoch: large, released: [claim], lost: [claim] }))).toEqual([
    "node_epoch",
    "released[0].epoch.ctr",
    "lost[0].epoch.ctr",
  ]);
  // Beyond the end of Date, where the wire still has room.
  const never = new Date(Number.NaN);
  expect(
    checkNews("claims[0]", { ailing: { since: never }, call: { since: never, deadline: never } } as never),
  ).toEqual(
    ["ailing.since", "call.since", "call.deadline"].map((name) => ({
      field: `claims[0].${name}`,
      description: "must be a time",
    })),
  );
  expect([registered, told]).toEqual([[], []]);
});
