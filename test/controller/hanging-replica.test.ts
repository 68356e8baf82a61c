/** Two replicas of a plugin, one of which gets calls and answers none: it delays the volumes whose calls it has, and no other. */
import {
  ClaimState,
  CreateClaimsRequest,
  ListClaimsRequest,
  ListClaimsResponse,
  ReleaseClaimsRequest,
} from "@holdfast/shared/gen/holdfast/v1/claim";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type ApiWorld, createApiWorld } from "../support/controller/api-world.ts";
import { makeSmallVolume } from "../support/controller/make-small-volume.ts";
import { processAt, sockets } from "../support/controller/processes-beside.ts";

const namespace = "default";
const nodes = ["n1", "n2", "n3"];
const volumes = Array.from({ length: 20 }, (_, n) => `v${n}`);
/** The newest of those beside a controller is the one that is called. */
const [other, hanging] = sockets.map((socket) => processAt("c1", socket));

let world: ApiWorld;
beforeEach(async () => {
  world = await createApiWorld({ nodes: Object.fromEntries(nodes.map((node) => [node, {}])) });
  for (const id of volumes) await makeSmallVolume(world, id);
  await world.pass(1_000, 100);
});
afterEach(async () => {
  expect(world.broken).toEqual([]);
  expect(world.backend.violations()).toEqual([]);
  await world.close();
});

const claim = (id: string, n: number) =>
  world.api.claims.createClaims(
    CreateClaimsRequest.fromPartial({
      namespace,
      workload: `w-${id}`,
      node: nodes[n % nodes.length] ?? "",
      claims: [{ volume: id }],
    }),
    world.context(),
  );
const release = (id: string) =>
  world.api.claims.releaseClaims(ReleaseClaimsRequest.fromPartial({ namespace, workload: `w-${id}` }), world.context());

/** Which process got the calls of that method, in their order. */
const calledAt = (method: string, from = 0) =>
  world.backend
    .record()
    .filter((call) => call.method === method && call.seq > from)
    .map(({ instance }) => instance);
const seq = (): number => world.backend.record().at(-1)?.seq ?? 0;

const claims = async () =>
  ListClaimsResponse.fromPartial(
    await world.api.claims.listClaims(ListClaimsRequest.fromPartial({ pageSize: 500 }), world.context()),
  ).claims.filter(({ state }) => state !== ClaimState.CLAIM_STATE_RELEASED);
const waiting = async (): Promise<readonly string[]> =>
  (await claims())
    .filter(({ state }) => state !== ClaimState.CLAIM_STATE_ACTIVE)
    .map(({ volume }) => volume)
    .sort();

test("[G2 G4 S7 S8] delays the volumes that it has calls of, and no other: those go on elsewhere, and all finish when it is replaced", async () => {
  expect(calledAt("CreateVolume")).toEqual(volumes.map(() => hanging));
  world.first().hang(1);
  for (const [n, id] of volumes.entries()) await claim(id, n);
  // One attach at a time a node: each node has one there before the first deadline is over, and two of them one more when it is.
  await world.pass(59_000, 1_000);
  expect(calledAt("ControllerPublishVolume")).toEqual(nodes.map(() => hanging));
  await world.pass(3_000, 100);
  const held = ["v0", "v1", "v2", "v3", "v4"];
  expect(await waiting()).toEqual(held);
  const others = volumes.filter((id) => !held.includes(id));
  expect(calledAt("ControllerPublishVolume")).toEqual([...held.map(() => hanging), ...others.map(() => other)]);

  // What comes later does not get there either, however long it hangs: on the very nodes that its calls are about.
  const before = seq();
  const moving = others.slice(0, 10);
  for (const [n, id] of moving.entries()) {
    await release(id);
    await world.pass(1_000, 100);
    await claim(id, n);
    await world.pass(1_000, 100);
    expect(await waiting()).toEqual(held);
    await world.pass(58_000, 1_000);
  }
  for (const method of ["ControllerUnpublishVolume", "ControllerPublishVolume"])
    expect(calledAt(method, before)).toEqual(moving.map(() => other));
  const { blocked } = (await claims()).find(({ volume }) => volume === "v4") ?? {};
  expect(blocked).toMatchObject({ reason: "PLUGIN_HANGS", message: expect.stringContaining(`"${sockets[1]}"`) });

  const replaced = seq();
  world.first().replace(1);
  await world.pass(1_000, 100);
  expect(await waiting()).toEqual([]);
  // Each at the instance that it was given to, and once.
  expect(calledAt("ControllerPublishVolume", replaced)).toEqual(held.map(() => hanging));
});
