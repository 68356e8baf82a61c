/** Several controllers over one store, of which one has not heard yet what another one decided about a node. */
import { randomUUID } from "node:crypto";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { caller, claimsInput, createWorld, plugin, type World } from "../../../../../test/support/controller/world.ts";
import { createNodeRegistry } from "../../nodes/node-registry.ts";
import type { NodeRegistry } from "../../nodes/node-registry-model.ts";
import { createNodeStore } from "../../nodes/node-store.ts";
import { createChanges } from "../../records/changes.ts";
import { createCutRecords } from "../../records/snapshot-records.ts";
import { createVolumeRecords } from "../../records/volume/volume-records.ts";
import { createCommands } from "../commands.ts";
import type { Commands } from "../model.ts";

let world: World;
let stop: AbortController;

beforeEach(async () => {
  world = await createWorld();
  stop = new AbortController();
  for (const id of ["data", "more"]) await world.makeVolume(id);
});
afterEach(async () => {
  stop.abort(new Error("over"));
  await world.close();
});

const controller = async (): Promise<{ readonly registry: NodeRegistry; readonly commands: Commands }> => {
  const { clock, store, backend, gate } = world;
  const log = createMemoryLogger();
  const ids = { uuid: () => randomUUID(), random: () => 0.5 };
  const signal = stop.signal;
  const registry = createNodeRegistry({
    nodes: createNodeStore({ store, clock, ids, signal }),
    clock,
    log,
    graceMs: 3_000,
    controllerId: "c1",
    signal,
  });
  await registry.load();
  const deps = { store, clock, ids, issuer: "c9/1", changes: createChanges(), signal };
  const records = createVolumeRecords({ ...deps, attachLimit: world.attachLimit, log });
  const cuts = createCutRecords(deps);
  const secrets = world.secrets;
  const commands = createCommands({
    records,
    cuts,
    nodes: registry,
    plugins: backend,
    gate,
    secrets,
    feed: store,
    clock,
    ids,
  });
  return { registry, commands };
};

const register = async (registry: NodeRegistry): Promise<void> => {
  await registry.register(
    {
      name: "far",
      machineId: "m1",
      bootId: "b1",
      instance: "i1",
      lockId: "",
      hostIdentity: "",
      journalUid: "j1",
      version: "1",
      verificationScope: "host",
      nodeEpoch: 0,
      clusterUid: "",
      fingerprintRevision: 1,
    },
    [
      {
        name: plugin,
        version: "1",
        instance: "a",
        role: "NODE",
        health: "HEALTHY",
        healthMessage: "",
        nodeId: "far",
        maxVolumes: 0,
        topology: {},
        capabilities: {},
      },
    ],
  );
};

const run = async <T>(work: Promise<T>): Promise<T> => {
  let done = false;
  const end = () => {
    done = true;
  };
  work.then(end, end);
  for (let n = 0; n < 200 && !done; n += 1) await world.clock.advance(10);
  return await work;
};

describe("a node that another controller closed", () => {
  const drain = { since: 1, reason: "new kernel", mode: "wait" } as const;

  it("gets no claim from one that has not heard of it", async () => {
    const [here, there] = [await controller(), await controller()];
    await register(here.registry);
    await there.registry.learnOf("far");
    await run(there.commands.createClaims(claimsInput("web", "far", ["data"]), caller));
    await here.registry.change("far", (record) => ({ ...record, drain }));
    expect(there.registry.get("far")?.record.drain).toBeUndefined();
    await expect(run(there.commands.createClaims(claimsInput("db", "far", ["more"]), caller))).rejects.toMatchObject({
      reason: "NODE_NOT_READY",
      metadata: { node: "far", state: "DRAINED" },
    });
    expect((await world.volume("more")).claims).toEqual({});
  });

  it("that it forgot is no place for a claim either", async () => {
    const [here, there] = [await controller(), await controller()];
    await register(here.registry);
    await there.registry.learnOf("far");
    const nothing = { index: "claim-node", value: "far" };
    await here.registry.forget("far", (record) => ({ ...record, plugins: [], forgottenAt: 1 }), nothing);
    await expect(run(there.commands.createClaims(claimsInput("db", "far", ["more"]), caller))).rejects.toMatchObject({
      metadata: { node: "far" },
    });
    expect((await world.volume("more")).claims).toEqual({});
  });

  it("costs a claim on an open one nothing: one commit, no read of the node", async () => {
    const { registry, commands } = await controller();
    await register(registry);
    const commits = world.store.commits();
    await run(commands.createClaims(claimsInput("web", "far", ["data"]), caller));
    expect(world.store.commits() - commits).toBe(1);
  });
});
