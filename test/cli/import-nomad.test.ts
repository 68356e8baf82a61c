/** `holdfast import nomad` against live services: shown first, taken over then, and the same again. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { fileWriter, makeVolume, namespace, plugin } from "../harness/scenario.ts";
import { cliRun } from "./cli-run.ts";
import { createGolden } from "./golden.ts";

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster({ nodes: ["node-a"] });
});
afterAll(() => cluster?.stop());

/** Storage that no record knows, as Nomad leaves it. */
const foreign = async (id: string): Promise<object> => {
  const { externalId } = await makeVolume(cluster, id, fileWriter);
  await cluster.volumes.deregisterVolume({ namespace, id });
  return {
    ...{ ID: id, Name: id, ExternalID: externalId, Namespace: "shop", PluginID: "sim0", Provider: plugin },
    ...{ Capacity: 16 << 20, MountOptions: { FSType: "ext4" }, ReadAllocs: {}, WriteAllocs: {} },
    RequestedCapabilities: [{ AccessMode: "single-node-writer", AttachmentMode: "file-system" }],
  };
};

test("nothing is changed before --apply and while one of them cannot be mapped; repeating it changes nothing", async () => {
  const [db, web] = [await foreign("db"), await foreign("web")];
  const files = {
    "volumes.json": JSON.stringify([db, web]),
    "wrong.json": JSON.stringify([db, { ...web, Provider: "", Secrets: { key: "[REDACTED]" } }]),
    "entry.json": JSON.stringify({ ...db, ID: "gone", Provider: "nobody.example.com" }),
  };
  const golden = createGolden((args, options) =>
    cliRun(args.split(" "), { address: cluster.address, files, ...options }),
  );
  const there = async () =>
    (await cluster.volumes.listVolumes({ filter: { namespace: "shop" } })).volumes.map(({ id, externalId, uid }) => ({
      ...{ id, externalId, uid },
    }));
  await golden("import-nomad", "import nomad volumes.json");
  await golden("import-nomad-wrong", "import nomad wrong.json --apply", 2);
  await golden("import-nomad-no-plugin", "import nomad entry.json --apply", 2);
  expect(await there()).toEqual([]);
  await golden("import-nomad-apply", "import nomad volumes.json --apply");
  const taken = await there();
  expect(taken.map(({ id }) => id).sort()).toEqual(["db", "web"]);
  await golden("import-nomad-again", "import nomad volumes.json --apply");
  expect(await there()).toEqual(taken);
  // It is Nomad's storage: what takes the record away leaves it.
  await cluster.volumes.deleteVolume({ namespace: "shop", id: "db", waitFor: { seconds: 20n } });
  expect((await cluster.backend.client.snapshot()).state.volumes.size).toBe(2);
  // Under another id it is known already.
  const again = { "volumes.json": JSON.stringify([{ ...web, ID: "other" }]) };
  const run = await cliRun("import nomad volumes.json --apply".split(" "), { address: cluster.address, files: again });
  expect([run.code, run.err]).toEqual([expect.any(Number), expect.stringContaining("VOLUME_EXISTS")]);
  expect(run.code).not.toBe(0);
});
