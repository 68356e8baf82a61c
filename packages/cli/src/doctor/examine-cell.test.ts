/** What a controller may tell that no cell of a test can be brought to quickly. */
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { expect, test } from "vitest";
import type { Clients } from "../frame/clients.ts";
import { examineCell } from "./examine-cell.ts";

const now = Date.parse("2030-01-01T00:00:00Z");
const blocked = { since: undefined, reason: "X", message: "it waits", missingProof: "", clearWith: "do this" };
const node = {
  name: "n",
  state: 1,
  stateMessage: "",
  verificationScope: 1,
  blocked: undefined,
  lastHeartbeat: undefined,
  plugins: [],
};

const cell = (over: {
  readonly open?: boolean;
  readonly missing?: readonly string[];
  readonly nodes?: readonly object[];
  readonly plugins?: readonly object[];
}): Clients =>
  ({
    repair: {
      vet: async () => ({ open: over.open ?? true, findings: (over.missing ?? []).map((message) => ({ message })) }),
      listStuck: async () => ({ stuck: [] }),
    },
    nodes: { listNodes: async () => ({ nodes: over.nodes ?? [], nextPageToken: "" }) },
    plugins: { listPlugins: async () => ({ plugins: over.plugins ?? [], nextPageToken: "" }) },
  }) as unknown as Clients;

const ids = async (clients: Clients) =>
  (await examineCell(clients, "c:1", now)).filter(({ level }) => level !== "ok").map(({ id }) => id);

test("a store that is shut", async () => {
  expect(await ids(cell({ open: false, missing: ["node n did not tell"] }))).toEqual(["store-shut"]);
});

test("[CW1] a controller whose plugins are barred while all else is granted", async () => {
  const missing = ["controller b/1 has not promised; holdfast repair forget-controller b/1"];
  const [, barred] = await examineCell(cell({ missing }), "c:1", now);
  expect(barred).toMatchObject({ id: "plugins-barred", level: "fault", message: missing[0] });
});

test("nodes: blocked, in the future, without a view of the host; plugins: unhealthy, quarantined", async () => {
  const plugin = { plugin: "p", health: 2, healthMessage: "no", blocked: undefined };
  expect(await ids(cell({ nodes: [{ ...node, blocked }] }))).toEqual(["node-blocked"]);
  expect(await ids(cell({ nodes: [{ ...node, lastHeartbeat: new Date(now + 60_000) }] }))).toEqual(["clock-skew"]);
  expect(await ids(cell({ nodes: [{ ...node, verificationScope: 2 }] }))).toEqual(["node-own-namespace"]);
  expect(await ids(cell({ nodes: [{ ...node, plugins: [plugin] }] }))).toEqual(["plugin-unhealthy"]);
  expect(await ids(cell({ nodes: [{ ...node, plugins: [{ ...plugin, blocked }] }] }))).toEqual(["plugin-quarantined"]);
});

const well = { name: "p", schedulable: true, unschedulableBecause: "", findings: [], tokensUnsignedBecause: "" };

test("a plugin whose profile asks for tokens that nobody signs", async () => {
  const [, found] = await examineCell(cell({ plugins: [{ ...well, tokensUnsignedBecause: "no key" }] }), "c:1", now);
  expect(found).toMatchObject({ id: "tokens-unsigned", level: "fault", subject: "p" });
  expect(found?.message).toContain("no key");
  expect(await ids(cell({ plugins: [well] }))).toEqual([]);
});

test("a plugin that says of itself what CSI does not allow", async () => {
  const odd = { ...well, findings: ["it lists and does not get"] };
  const [, found] = await examineCell(cell({ plugins: [odd] }), "c:1", now);
  expect(found).toMatchObject({ id: "plugin-odd", level: "warning", subject: "p", message: odd.findings[0] });
  expect(await ids(cell({ plugins: [well] }))).toEqual([]);
});

test("what is no silence of the controller is not taken for one", async () => {
  const refused = new HoldfastError({ kind: "permission", reason: "PERMISSION_DENIED", message: "no" });
  const clients = { repair: { vet: () => Promise.reject(refused) } } as unknown as Clients;
  await expect(examineCell(clients, "c:1", now)).rejects.toBe(refused);
});
