/**
 * The cures of blocks of nodes, as an operator reads them on the command line: over agents that register with a controller over its real
 * store and API. What is printed is run, by the command line where it is one of Holdfast's, and the block is gone.
 */
import { expect, test } from "vitest";
import { cliRun } from "../cli/cli-run.ts";
import { createNodeWorld, graceMs, type NodeWorld } from "../support/controller/node-world.ts";
import { linesOf, typedIn } from "../support/controller/typed-lines.ts";

const minute = 60_000;
/** For so long a refused agent is shown after it asked last. */
const disputeMs = 10 * graceMs;

const shown = async ({ address }: NodeWorld, line: string): Promise<string> => {
  const { code, out, err } = await cliRun(line.split(" "), { address });
  expect(code, `${line}: ${err}`).toBe(0);
  return out;
};

/** What a status prints below a block; undefined = it is not blocked for that. */
const cureIn = (text: string, reason: string): string | undefined =>
  new RegExp(`Blocked: +${reason}, [^\n]*\nMissing proof: [^\n]*\nClear with: +([^\n]*)`).exec(text)?.[1];

const cureOf = async (world: NodeWorld, line: string, reason: string): Promise<string> => {
  const text = await shown(world, line);
  const cure = cureIn(text, reason);
  if (cure === undefined) throw new Error(`${line} says nothing of ${reason}: ${text}`);
  return cure;
};

const isStuck = async (world: NodeWorld, reason: string): Promise<boolean> =>
  (await shown(world, "repair stuck")).includes(reason);

const usedVolume = async ({ world }: NodeWorld): Promise<void> => {
  await world.makeVolume("data");
  await world.claim("job", "n1", ["data"]);
  await world.idle();
  expect(await world.states("job")).toEqual(["ACTIVE"]);
};

/** Two agents on two machines have one name: the second one is refused. */
const conflict = async () => {
  const nodes = await createNodeWorld();
  const first = nodes.agent("n1", "m1");
  const second = nodes.agent("n1", "m2");
  await first.ask();
  await expect(second.ask()).rejects.toMatchObject({ reason: "NODE_CONFLICT" });
  expect(await isStuck(nodes, "NODE_CONFLICT")).toBe(true);
  const cure = await cureOf(nodes, "node status n1", "NODE_CONFLICT");
  expect(cure).toContain('"systemctl stop holdfast-node-agent" on the machine that is not n1');
  return { ...nodes, first, second };
};

test("the cure of NODE_CONFLICT: the agent that is not the node is stopped", async () => {
  const { second, ...nodes } = await conflict();
  second.cut();
  await nodes.world.pass(disputeMs + graceMs);
  expect(await isStuck(nodes, "NODE_CONFLICT")).toBe(false);
  expect(cureIn(await shown(nodes, "node status n1"), "NODE_CONFLICT")).toBeUndefined();
  expect(nodes.registry.get("n1")).toMatchObject({ live: "alive", record: { machineId: "m1" } });
});

test("the cure of NODE_CONFLICT: the agent that was the node is stopped, and the other one is it then", async () => {
  const { first, second, ...nodes } = await conflict();
  first.cut();
  await nodes.world.pass(2 * graceMs);
  await second.ask();
  expect(await isStuck(nodes, "NODE_")).toBe(false);
  expect(await shown(nodes, "node status n1")).not.toContain("BLOCKED");
  expect(nodes.registry.get("n1")).toMatchObject({ live: "alive", record: { machineId: "m2", nodeEpoch: 2 } });
});

test("the cure of NODE_PENDING, as the status and the explanation of a claim print it: the other life is admitted", async () => {
  const nodes = await createNodeWorld();
  const { world, address, registry } = nodes;
  const first = nodes.agent("n1", "m1");
  await first.ask();
  await usedVolume(nodes);
  first.cut();
  await world.pass(2 * graceMs);
  // The state directory of the host was lost.
  const second = nodes.agent("n1", "m1", "emptied");
  await expect(second.ask()).rejects.toMatchObject({ reason: "NODE_PENDING" });
  world.agents.silence("n1", true);
  await world.release("job");
  await world.pass(minute, 5_000);
  const cure = await cureOf(nodes, "claim status job data", "NODE_PENDING");
  const [line = ""] = linesOf(cure);
  expect(line).toBe(`holdfast node admit n1 ${registry.get("n1")?.record.pending?.life}`);
  const explained = await shown(nodes, "volume explain data");
  expect(explained).toContain("is blocked (NODE_PENDING)");
  expect(explained).toContain(cure);
  expect(await cureOf(nodes, "node status n1", "NODE_PENDING")).toContain(line);

  await typedIn(world, address, line);
  world.agents.silence("n1", false);
  await second.ask();
  await world.pass(5 * minute, 10_000);
  expect(await isStuck(nodes, "NODE_PENDING")).toBe(false);
  expect(registry.get("n1")).toMatchObject({ live: "alive", record: { journalUid: "journal-m1-emptied" } });
  expect(await world.states("job")).toEqual(["RELEASED"]);
});

/** A drain that is past its time: a claim is still there. */
const overdue = async () => {
  const nodes = await createNodeWorld();
  const { world, address } = nodes;
  await nodes.agent("n1", "m1").ask();
  await usedVolume(nodes);
  world.drains.run().catch(() => undefined);
  await typedIn(world, address, "holdfast node drain n1 --deadline 1m --no-wait");
  await world.pass(2 * minute, 10_000);
  const cure = await cureOf(nodes, "node status n1", "DRAIN_OVERDUE");
  const [look = "", release = "", undrain = ""] = linesOf(cure);
  const listed = await shown(nodes, look.replace("holdfast ", ""));
  expect(listed).toMatch(/job +data +default\/data/);
  const isOver = async (): Promise<void> => {
    await world.pass(minute, 10_000);
    expect(cureIn(await shown(nodes, "node status n1"), "DRAIN_OVERDUE")).toBeUndefined();
  };
  return { ...nodes, release, undrain, isOver };
};

test("the cure of DRAIN_OVERDUE: what the claims had is given back", async () => {
  const { world, address, release, isOver } = await overdue();
  await typedIn(world, address, release.replace("<workload>", "job").replace("<namespace>", "default"));
  expect(await world.states("job")).toEqual(["RELEASED"]);
  await isOver();
});

test("the cure of DRAIN_OVERDUE: the drain is taken back", async () => {
  const { world, address, undrain, registry, isOver } = await overdue();
  await typedIn(world, address, undrain);
  await isOver();
  expect(registry.get("n1")?.record.drain).toBeUndefined();
  expect(await world.states("job")).toEqual(["ACTIVE"]);
});

/** A claim is active on it when it is lost. */
const lostNode = async (): Promise<NodeWorld> => {
  const nodes = await createNodeWorld();
  const agent = nodes.agent("n1", "m1");
  await agent.ask();
  await usedVolume(nodes);
  agent.cut();
  nodes.world.agents.silence("n1", true);
  await nodes.world.pass(2 * graceMs);
  return nodes;
};

/** Its machine is off: nothing is left there, and it has not come back. */
const fenced = async () => {
  const nodes = await lostNode();
  const { world, address, registry } = nodes;
  await typedIn(world, address, "holdfast node fence n1 --powered-off seen --reason lost --no-wait");
  const [look = ""] = linesOf(await cureOf(nodes, "node status n1", "NODE_FENCED"));
  expect(look).toContain("holdfast node status n1");
  world.fences.run().catch(() => undefined);
  await world.pass(minute, 5_000);
  expect(registry.get("n1")?.record.state).toBe("QUARANTINED");
  const cure = await cureOf(nodes, "node status n1", "NODE_FENCED");
  expect(cure).toMatch(/^start its agent; when it never comes back: holdfast node forget n1$/);
  expect(await isStuck(nodes, "NODE_FENCED")).toBe(true);
  return { ...nodes, cure };
};

test("the cure of NODE_FENCED: its agent is started, and shows that it is empty", async () => {
  const { world, registry, ...nodes } = await fenced();
  world.agents.reboot("n1");
  world.agents.silence("n1", false);
  await nodes.agent("n1", "m1", "rebooted").ask();
  await world.pass(minute, 5_000);
  expect(await isStuck({ world, registry, ...nodes }, "NODE_FENCED")).toBe(false);
  expect(registry.get("n1")?.record.state).toBe("READY");
});

test("the cure of NODE_FENCED: it never comes back, and is forgotten", async () => {
  const { world, address, cure, registry, ...nodes } = await fenced();
  for (const line of linesOf(cure)) await typedIn(world, address, line);
  expect(await isStuck({ world, address, registry, ...nodes }, "NODE_FENCED")).toBe(false);
  expect(registry.get("n1")).toBeUndefined();
});

test("node fence ends its wait when all that is left there is blocked", async () => {
  const nodes = await lostNode();
  const { world, address, registry } = nodes;
  world.backend.chance((method) =>
    method === "unpublish" ? { kind: "refused", advice: "block", code: "FAILED_PRECONDITION" } : undefined,
  );
  world.fences.run().catch(() => undefined);
  let over = false;
  const end = cliRun(["node", "fence", "n1", "--powered-off", "seen", "--reason", "lost", "--timeout", "20s"], {
    address,
  }).finally(() => {
    over = true;
  });
  while (!over) await world.clock.advance(50);
  const { code, err } = await end;
  expect(code, err).toBe(7);
  expect(err).toMatch(/the claim of job to default\/data, one of 1 .* is blocked: .*\(PLUGIN_REFUSED\)/);
  expect(err).toContain("next: do what the plugin's message asks for");
  expect(registry.get("n1")?.record.state).toBe("FENCING");
});
