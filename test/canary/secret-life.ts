/** Everything that is done with secrets, while the plugin tells each of them once in the text of an error. */
import type { SecretsSeen } from "@holdfast/sim-plugin/backend/call-record";
import { expect } from "vitest";
import {
  claimVolume,
  expectClean,
  fileWriter,
  growVolume,
  modifyVolume,
  namespace,
  plugin,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";
import { canaryOf, formsOf, privateOf } from "./forms.ts";
import { carriedOver } from "./secret-fields.ts";
import {
  arrayName,
  healthSecret,
  inlineSecrets,
  type SecretWorld,
  snapshotSecrets,
  volumeSecrets,
} from "./secret-world.ts";

const waitFor = { seconds: 45n, nanos: 0 };
const login = (canary: string): string => `login with ${formsOf(canaryOf(canary)).join(" and ")} failed`;

/** What the plugin tells of itself; no call of this life fails by it. */
const told = "NodeGetStorageHealth";
/** Certainly nothing was made: after any other answer the record of what is deleted would wait for the call to arrive after all. */
const making: readonly string[] = ["CreateVolume", "CreateSnapshot", "CreateVolumeGroupSnapshot"];

const volume = ({ of }: SecretWorld, id: keyof SecretWorld["of"]) => ({
  ...{ namespace, id: of[id], plugin, waitFor },
  capacity: { requiredBytes: 16n << 20n },
  capabilities: [fileWriter],
  secrets: volumeSecrets,
  parameters: { kept: privateOf("parameters") },
});

const allOf = async (stream: AsyncIterable<unknown>): Promise<readonly unknown[]> => {
  const all: unknown[] = [];
  for await (const message of stream) all.push(message);
  return all;
};

/** Answers what the first one ended with, too. */
const twice = async (world: SecretWorld, ask: () => Promise<unknown>): Promise<void> => {
  const refused = await ask().then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(String(refused)).toContain("login with");
  world.answers.push(String(refused), await ask());
};

const ofSnapshots = async (world: SecretWorld): Promise<void> => {
  const { snapshots } = world.cluster;
  const { kept } = world.of;
  const of = { namespace, waitFor, waitUntilReady: true, secrets: snapshotSecrets };
  const { snapshot } = await snapshots.createSnapshot({ ...of, id: "refused", volume: kept });
  expect(snapshot?.lastError?.message).toContain("login with");
  await snapshots.deleteSnapshot({ namespace, id: "refused", waitFor });
  for (const id of ["cut-1", "cut-2"]) world.answers.push(await snapshots.createSnapshot({ ...of, id, volume: kept }));
  const asList = { plugin, namespace, secrets: snapshotSecrets["list"] };
  await twice(world, () => snapshots.listExternalSnapshots(asList));
  const blocks = { namespace, snapshot: "cut-1" };
  await twice(world, () => allOf(snapshots.getMetadataAllocated(blocks)));
  const delta = { namespace, baseSnapshot: "cut-1", targetSnapshot: "cut-2" };
  await twice(world, () => allOf(snapshots.getMetadataDelta(delta)));
  const members = [{ volume: kept, snapshot: "cut-3" }];
  const { group } = await snapshots.createSnapshotGroup({ ...of, id: "refused", members });
  expect(group?.lastError?.message).toContain("login with");
  await snapshots.deleteSnapshotGroup({ namespace, id: "refused", waitFor });
  world.answers.push(snapshot, group);
  world.answers.push(await snapshots.createSnapshotGroup({ ...of, id: "group", members }));
  world.answers.push(await snapshots.deleteSnapshotGroup({ namespace, id: "group", waitFor }));
  for (const id of ["cut-1", "cut-2"]) await snapshots.deleteSnapshot({ namespace, id, waitFor });
};

/** The plugin repeats its secret in what it tells of its storage. */
const ofStorageHealth = async ({ cluster, plugins, answers }: SecretWorld): Promise<void> => {
  const set = await plugins.setPluginProfile({ name: plugin, profile: { nodeHealthSecret: healthSecret } });
  expect(set.plugin?.profile?.nodeHealthSecret).toEqual(healthSecret);
  // Before that it has no secret that it could tell.
  await until("the plugin to have its secret", async () =>
    (await cluster.backend.client.record()).some(
      ({ method, request }) =>
        method === told && (request as { readonly secrets: SecretsSeen }).secrets.keys.length > 0,
    ),
  );
  await cluster.backend.client.setStorageHealth("node-a", [
    { status: 1, reason: "PathLost", message: login("nodeHealth") },
  ]);
  const shown = await until("what it says to be shown", async () => {
    const { node } = await cluster.nodes.getNode({ name: "node-a" });
    const seen = node?.plugins.flatMap(({ storageHealth }) => storageHealth) ?? [];
    return seen.some(({ message }) => message.includes("login with")) ? node : undefined;
  });
  const elsewhere = { ...healthSecret, secret: { ref: "env:ANOTHER" } };
  const refused = await plugins
    .setPluginProfile({ name: plugin, profile: { nodeHealthSecret: elsewhere } })
    .catch((error: unknown) => String(error));
  expect(refused).toContain("profile.node_health_secret.secret.ref");
  answers.push(set, shown, refused, await plugins.getPlugin({ name: plugin }));
};

const ofVolumes = async (world: SecretWorld): Promise<void> => {
  const { cluster, answers } = world;
  const { volume: refused } = await cluster.volumes.createVolume(volume(world, "refused"));
  expect(refused?.lastError?.message).toContain("login with");
  await removeVolume(cluster, world.of.refused);
  const policy = { identityTokens: [{ audience: "vault" }], requiresRepublish: true };
  const created = await cluster.volumes.createVolume({ ...volume(world, "kept"), policy });
  expect(created.volume?.externalId).not.toBe("");
  const { create: _, ...others } = volumeSecrets;
  const inline = await cluster.volumes.createVolume({ ...volume(world, "inline"), secrets: others, inlineSecrets });
  expect(inline.volume?.secrets?.create?.ref).toBe(`secret:volume.${world.of.inline}@1`);
  const claim = await claimVolume(cluster, world.of.kept);
  expect(stateName(claim)).toBe("ACTIVE");
  answers.push(refused, created, inline, claim, await growVolume(cluster, world.of.kept));
  answers.push(await modifyVolume(cluster, world.of.kept, { tier: privateOf("mutable-parameters") }));
  await ofSnapshots(world);
  answers.push(await cluster.claims.listClaims({ filter: { namespace } }));
  answers.push(await cluster.volumes.explainVolume({ namespace, id: world.of.kept }));
  await releaseWorkload(cluster, `w-${world.of.kept}`);
};

/** Of storage that is there. */
const ofRegistration = async (world: SecretWorld): Promise<void> => {
  const { cluster, answers, of } = world;
  const { volume: known } = await cluster.volumes.getVolume({ namespace, id: of.kept });
  const { externalId = "", context = {} } = known ?? {};
  await cluster.volumes.deregisterVolume({ namespace, id: of.kept });
  const { create: _, ...others } = volumeSecrets;
  const { capacity: __, parameters: ___, ...same } = volume(world, "again");
  const again = await cluster.volumes.registerVolume({ ...same, externalId, context, secrets: others, inlineSecrets });
  expect(again.volume?.secrets?.create?.ref).toBe(`secret:volume.${of.again}@1`);
  answers.push(known, again);
};

const ofSecrets = async ({ cluster, answers }: SecretWorld): Promise<void> => {
  const refused = await cluster.secrets.deleteSecret({ namespace, name: arrayName }).catch((e: unknown) => String(e));
  expect(refused).toContain("is referred to by volume");
  const values = { token: canaryOf("too-long").repeat(300) };
  const tooLong = await cluster.secrets
    .putSecret({ namespace, name: "array", values })
    .catch((e: unknown) => String(e));
  expect(tooLong).toContain("values");
  answers.push(refused, tooLong, await cluster.secrets.listSecrets({ namespace }));
};

export const liveWithSecrets = async (world: SecretWorld): Promise<void> => {
  const { cluster, store, answers, of } = world;
  const from = await cluster.events.watchEvents({})[Symbol.asyncIterator]().next();
  const { state } = await cluster.backend.client.snapshot();
  const carried = carriedOver(store);
  const faults = carried.flatMap(([method, canary]) => {
    if (method === told) return [];
    const code = making.includes(method) ? ("INVALID_ARGUMENT" as const) : ("INTERNAL" as const);
    return [{ method: method as "*", code, message: login(canary) }];
  });
  await cluster.backend.client.setFaults(faults);
  await ofStorageHealth(world);
  await ofVolumes(world);
  await ofRegistration(world);
  await ofSecrets(world);
  for (const id of [of.inline, of.again]) await removeVolume(cluster, id);
  await cluster.secrets.deleteSecret({ namespace, name: arrayName });
  // What was registered is not Holdfast's to delete.
  await expectClean(cluster, { volumesLeft: state.volumes.size + 1 });
  for await (const message of cluster.events.watchEvents({ resumeToken: from.value?.resumeToken ?? "" })) {
    answers.push(message);
    if (message.event?.reason === "SECRET_DELETED" && message.event.subject?.secret === arrayName) break;
  }
  const last = (name: string) => name.endsWith("DeleteVolume");
  await world.traces.until(
    (spans) =>
      spans.some(
        ({ name, attributes }) =>
          last(name) && Object.values(attributes).some((value) => String(value).endsWith(of.inline)),
      ),
    "the deletion of the last volume",
  );
};
