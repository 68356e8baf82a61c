/**
 * Every RPC and every body on the stream, asked over TLS by every kind of caller about what is its own, another's and absent, and compared with the
 * table of docs/security.md. Then each row of the servers loses its checks, one after the other: some cell has to differ.
 */
import { AgentLinkServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { afterAll, beforeAll, expect, test } from "vitest";
import { full } from "../support/full.ts";
import { type AccessWorld, createAccessWorld } from "./access-world.ts";
import { answerOf, askCell, type CellOutcome } from "./ask-cell.ts";
import { type Column, columns, namesOf, type Subject, subjects } from "./callers.ts";
import { certificateTransport } from "./certificate-transport.ts";
import { allMethods, type Method, methodsOf, onController } from "./methods.ts";
import { expectedOf, type Right, readRights } from "./rights-table.ts";

let world: AccessWorld;
let rights: Awaited<ReturnType<typeof readRights>>;
beforeAll(async () => {
  rights = await readRights();
  world = await createAccessWorld(await certificateTransport());
});
afterAll(() => world.close());

interface Cell {
  readonly cell: string;
  readonly expected: CellOutcome | undefined;
  readonly found: CellOutcome;
}

/** Callers without a certificate are looked at a few times a second: one that should reach its handler is asked again. */
const askUntil = async (
  expected: CellOutcome | undefined,
  method: Method,
  caller: Column,
  subject: Subject,
): Promise<CellOutcome> => {
  const found = await askCell(world, method, caller, subject);
  if (caller !== "no certificate" || expected !== "reached" || found === "reached") return found;
  await new Promise((wake) => setTimeout(wake, 1_100));
  return await askCell(world, method, caller, subject);
};

const cellsOf = async (method: Method): Promise<readonly Cell[]> => {
  const row = rights.get(method.rpc);
  const cells: Cell[] = [];
  for (const caller of columns) {
    const asked = subjects.map(async (subject): Promise<Cell> => {
      const right: Right | undefined = row?.[caller];
      const expected = right && expectedOf(right, caller, subject);
      const found = await askUntil(expected, method, caller, subject);
      return { cell: `${method.rpc} by ${caller} about ${subject}`, expected, found };
    });
    cells.push(...(await Promise.all(asked)));
  }
  return cells;
};

const differences = (cells: readonly Cell[]): readonly Cell[] =>
  cells.filter(({ expected, found }) => expected !== found);

test("the table of rights has a row for every RPC, and none besides", () => {
  expect([...rights.keys()].sort()).toEqual(allMethods.map(({ rpc }) => rpc).sort());
});

/** What each list and watch of the API says where nothing is asked for in particular. */
const saidWithoutFilter = async (caller: "scheduler" | "operator"): Promise<ReadonlyMap<string, string>> => {
  const said = new Map<string, string>();
  const open = methodsOf(onController).filter(({ key }) => /^(list|watch|scan)/.test(key));
  for (const method of open) {
    const answer = await answerOf(world, method, caller, { plugin: namesOf.own.plugin });
    said.set(method.rpc.replace("holdfast.v1.", ""), answer);
  }
  return said;
};

// Before the cells, of which some delete what is there.
test("a list or watch without a filter shows a scheduler nothing of another namespace", {
  timeout: 60_000,
}, async () => {
  const all = await saidWithoutFilter("operator");
  const own = await saidWithoutFilter("scheduler");
  // They have something to hide, and it is there.
  const full = [...all].flatMap(([rpc, text]) => (text.includes("bank") ? [rpc] : []));
  expect(full).toEqual([
    ...["VolumeService/ListVolumes", "VolumeService/WatchVolumes", "VolumeService/ListExternalVolumes"],
    ...["SnapshotService/ListSnapshots", "SnapshotService/ListExternalSnapshots", "SnapshotService/ListSnapshotGroups"],
    ...["RepairService/ListAudit", "SecretService/ListSecrets", "QuotaService/ListQuotas", "GrantService/ListGrants"],
  ]);
  expect([...own].filter(([, text]) => text.includes("bank"))).toEqual([]);
  const told = [...own].filter(([, text]) => !text.includes("PERMISSION_DENIED"));
  const seen = told.flatMap(([rpc, text]) => (text.includes("shop") ? [rpc] : []));
  expect(seen).toEqual(full.filter((rpc) => rpc !== "GrantService/ListGrants"));
});

test("every cell is as the table of rights says", { timeout: 180_000 }, async () => {
  const cells: Cell[] = [];
  for (const method of allMethods) cells.push(...(await cellsOf(method)));
  expect(differences(cells)).toEqual([]);
  expect(cells.length).toBe(allMethods.length * columns.length * subjects.length);
  expect(cells.length).toBeGreaterThanOrEqual(720);
});

/** A node, of itself, in the namespace that HOLDFAST_NODE_NAMESPACES names, in one that it does not name, and in one that is not there. */
const claimCells = async (): Promise<readonly Cell[]> => {
  const claims = methodsOf([AgentLinkServiceDefinition]).filter(({ key }) => /^(request|release)Claims$/.test(key));
  const asked = claims.flatMap((method) =>
    subjects.map(async (subject): Promise<Cell> => {
      const { namespace } = namesOf[subject];
      const request = () => ({ ...method.request("own"), namespace });
      const found = await askCell(world, { ...method, request }, "node", "own");
      return { cell: `${method.rpc} in ${namespace}`, expected: subject === "own" ? "reached" : "denied", found };
    }),
  );
  return await Promise.all(asked);
};

test("a node asks for claims, and gives those of a workload back, in the namespaces of the setting alone", async () => {
  const cells = await claimCells();
  expect(cells.length).toBe(6);
  expect(differences(cells)).toEqual([]);
  for (const { path, rpc } of methodsOf([AgentLinkServiceDefinition])) {
    const row = world.rows.get(path);
    if (row === undefined) throw new Error(`${path} has no row`);
    world.rows.set(path, { ...row, asked: ({ node }: { readonly node: string }) => ({ node }) } as never);
    try {
      const other = differences(await claimCells()).map(({ cell }) => cell);
      const own = ["bank", "void"].map((namespace) => `${rpc} in ${namespace}`);
      expect(other).toEqual(/\/(Request|Release)Claims$/.test(rpc) ? own : []);
    } finally {
      world.rows.set(path, row);
    }
  }
});

const everyRole = ["node", "scheduler", "operator", "controller", "monitor", "local", "anonymous"] as const;

const reasoned = new Set(
  [
    "NodeService/DrainNode",
    "NodeService/ForgetNode",
    "PluginService/SetPluginProfile",
    "PluginService/DeletePlugin",
    "TrustService/Revoke",
  ].map((rpc) => `holdfast.v1.${rpc}`),
);

/** Each row without its roles, and each without what it holds against the request. */
const mutants = allMethods.flatMap((method) =>
  (["roles", "scope"] as const).map((check) => ({ method, check, name: `${method.rpc} without its ${check}` })),
);

test("a row that loses a check makes a cell differ", { timeout: 900_000 }, async () => {
  const survivors: string[] = [];
  let tried = 0;
  for (const [at, { method, check, name }] of mutants.entries()) {
    if (!full && at % 9 !== 4) continue;
    const rows = world.rows.has(method.path) ? world.rows : world.agentRows;
    const row = rows.get(method.path);
    if (row === undefined) throw new Error(`${method.path} has no row`);
    if (check === "scope" && row.asked === undefined) continue;
    // It is about a reason, and judge-scope.test.ts shows what it does.
    if (check === "scope" && reasoned.has(method.rpc)) continue;
    if (check === "roles" && row.roles.length === everyRole.length) continue;
    // Over a stream every caller is the node of its hello: Serve is where another role is refused.
    if (check === "roles" && method.definition === AgentLinkServiceDefinition) continue;
    const { asked: _scope, ...unscoped } = row;
    rows.set(method.path, (check === "roles" ? { ...row, roles: everyRole } : unscoped) as never);
    tried += 1;
    try {
      if (differences(await cellsOf(method)).length === 0) survivors.push(name);
    } finally {
      rows.set(method.path, row as never);
    }
  }
  expect(survivors).toEqual([]);
  expect(tried).toBeGreaterThan(full ? 150 : 12);
});
