/** What agents say of what they hold stands on the claims, in Explain and among what is stuck, and goes when they say no more. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { createWorld, type World } from "../../../../test/support/controller/world.ts";
import { planSteps } from "../domain/steps.ts";
import { createToldNews, type ToldNews } from "./told-news.ts";

let world: World;
let news: ToldNews;
beforeEach(async () => {
  world = await createWorld();
  news = createToldNews({ records: world.records, nodeOf: (node) => world.nodes.get(node)?.record });
  await world.makeVolume("data");
  await world.claim("web", "n1", ["data"]);
  await world.idle();
});
afterEach(() => world.close());

const claimNow = async () => Object.values((await world.volume("data")).claims)[0];
const reporter = () => {
  const { nodeEpoch, instance } = world.nodes.get("n1")?.record ?? { nodeEpoch: 0, instance: "" };
  return { node: "n1", nodeEpoch, instance };
};
const named = async () => {
  const { uid } = await world.volume("data");
  const claim = await claimNow();
  return { namespace: "default", volume: "data", volumeUid: uid, claimUid: claim?.uid ?? "", epoch: claim?.epoch };
};
const hung = {
  since: 5,
  reason: "MOUNT_HUNG",
  message: "what is mounted at /m does not answer",
  missingProof: "an answer of the file system at /m",
  clearWith: "bring back what serves it",
};
const told = async (...parts: readonly object[]) => {
  const { epoch, ...its } = await named();
  await news.take(
    reporter(),
    parts.map((part) => ({ ...its, ...(epoch === undefined ? {} : { epoch }), ...part })),
  );
};
const stuck = async () => {
  const none = { namespace: "", plugin: "", node: "", reasons: [] };
  return (await world.repair.listStuck(none, { size: 50, after: undefined })).items;
};
const explained = () => world.commands.explainVolume({ namespace: "default", id: "data" });

test("D6: a mount that hangs is on the claim, in Explain and among what is stuck; nothing is made anew", async () => {
  await told({ ailing: hung });
  const claim = await claimNow();
  expect(claim).toMatchObject({ state: "ACTIVE", ailing: hung });
  expect(claim?.degradedSince).toBeUndefined();
  expect(planSteps(await world.volume("data"), Number.MAX_SAFE_INTEGER).ready).toEqual([]);
  expect((await stuck()).map(({ blocked, workload }) => [blocked.reason, workload])).toEqual([["MOUNT_HUNG", "web"]]);
  const { findings, nextActions, claims } = await explained();
  expect(findings.join("\n")).toContain(`is blocked (MOUNT_HUNG): ${hung.message}`);
  expect(claims[0]?.step).toBe("mounted on n1, and the mount does not answer");
  expect(nextActions).toEqual([hung.clearWith]);
  // Said again, and nothing is written.
  const commits = world.store.commits();
  await told({ ailing: hung });
  expect(world.store.commits()).toBe(commits);
  await told();
  expect(await claimNow()).not.toHaveProperty("ailing");
  expect(await stuck()).toEqual([]);
});

test("D6: it stays while the claim is released, and goes with it", async () => {
  await told({ ailing: hung });
  world.agents.script("release", { kind: "pending", blocked: false });
  await world.release("web");
  await world.idle();
  expect(await claimNow()).toMatchObject({ state: "RELEASING", ailing: hung });
  await world.pass(60_000);
  expect(await world.states("web")).toEqual(["RELEASED"]);
});

test("D6: what another controller was told last is over when a report has it no more", async () => {
  await told({ ailing: hung });
  const other = createToldNews({ records: world.records, nodeOf: (node) => world.nodes.get(node)?.record });
  await other.take(reporter(), []);
  expect(await claimNow()).not.toHaveProperty("ailing");
});

test("a life that is not the registered one, and another grant, are not believed", async () => {
  const { epoch: _e, ...its } = await named();
  await news.take({ ...reporter(), instance: "other" }, [{ ...its, ailing: hung }]);
  await news.take(reporter(), [{ ...its, epoch: { gen: 9, ctr: 9 }, ailing: hung }]);
  expect(await claimNow()).not.toHaveProperty("ailing");
});

test("D15: a node call that lasts is on the claim and in Explain until the step is answered", async () => {
  world.agents.script("release", { kind: "pending", blocked: false });
  await world.release("web");
  await world.idle();
  const call = { method: "NodeUnpublishVolume", instance: "sim", since: 1_000, deadline: 61_000, attempt: 2 };
  await told({ call });
  const found = await explained();
  expect(found.claims[0]?.call).toEqual(call);
  expect(found.findings.join("\n")).toContain(
    'waits for NodeUnpublishVolume (attempt 2): plugin instance "sim" has it since 1970-01-01T00:00:01.000Z',
  );
  await world.pass(60_000);
  expect(await world.states("web")).toEqual(["RELEASED"]);
});

test("D15: a node call that ended without an answer to its order goes with the next report", async () => {
  const call = { method: "NodeExpandVolume", instance: "sim", since: 1_000, deadline: 61_000, attempt: 1 };
  await told({ claimUid: "", call });
  expect(await claimNow()).toMatchObject({ call });
  await told();
  expect(await claimNow()).not.toHaveProperty("call");
});
