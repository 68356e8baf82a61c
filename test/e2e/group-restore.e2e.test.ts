/** Groups restored as a set over real processes: the data of each volume, a controller that dies on the way, and a member that fails. */
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import {
  GroupRestoreState,
  type RestoreSnapshotGroupResponse,
  SnapshotState,
} from "@holdfast/shared/gen/holdfast/v1/snapshot";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import {
  claimVolume,
  fileWriter,
  makeVolume,
  namespace,
  persistently,
  releaseWorkload,
  removeVolume,
  stateName,
  volumeStateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: loop devices and real mounts need root");
const waitFor = { seconds: 45n, nanos: 0 };
const ready = GroupRestoreState.GROUP_RESTORE_STATE_READY;
const local = { plugin: "local.holdfast.dev", parameters: { type: "image", fsType: "ext4" }, bytes: 16n << 20n };

let cluster: Cluster;

const cutTogether = (id: string, volumes: readonly string[]): Promise<void> =>
  persistently(`group ${id}`, async () => {
    const members = volumes.map((volume) => ({ volume, snapshot: `${id}-${volume}` }));
    const asked = { namespace, id, members, waitFor, waitUntilReady: true };
    const { group } = await cluster.snapshots.createSnapshotGroup(asked);
    if (group?.state !== SnapshotState.SNAPSHOT_STATE_READY) throw new Error(`the group is ${group?.state}`);
  });

const restore = (group: string, sources: readonly string[], parameters: Record<string, string> = {}) => {
  const members = sources.map((source) => ({
    source,
    id: `${group}-new-${source}`,
    capabilities: [fileWriter],
    parameters,
  }));
  return cluster.snapshots.restoreSnapshotGroup({ namespace, group, members, waitFor });
};
/** A caller that repeats its call until all are there, as it should. */
const restored = (group: string, sources: readonly string[], parameters: Record<string, string> = {}) =>
  persistently(`the restore of ${group}`, async (): Promise<RestoreSnapshotGroupResponse> => {
    const answer = await restore(group, sources, parameters);
    if (answer.state !== ready) throw new Error(`the set is ${answer.state}`);
    return answer;
  });

const mounted = async (id: string): Promise<string> => {
  const claim = await persistently(`the claim on ${id}`, () => claimVolume(cluster, id));
  expect(stateName(claim)).toBe("ACTIVE");
  return claim.hostPath;
};
const released = (id: string): Promise<void> =>
  persistently(`the release of ${id}`, async () => {
    const claims = await releaseWorkload(cluster, `w-${id}`);
    if (!claims.every((one) => stateName(one) === "RELEASED")) throw new Error("not released yet");
  });
const clean = async (group: string, volumes: readonly string[]): Promise<void> => {
  for (const id of volumes) await persistently(`removing ${id}`, () => removeVolume(cluster, id));
  await persistently(`removing ${group}`, async () => {
    const { group: left } = await cluster.snapshots.deleteSnapshotGroup({ namespace, id: group, waitFor });
    if (left !== undefined) throw new Error("the group is still there");
  });
};

describe.skipIf(!root)("a group of volumes with data", () => {
  beforeAll(async () => {
    cluster = await startCluster({ nodes: ["node-a"], localDriver: { HOLDFAST_LOCAL_ATTACH: "1" } });
  });
  afterAll(() => cluster?.stop());

  it("is restored member by member from its own source, although the sources have gone on or are gone", {
    timeout: 180_000,
  }, async () => {
    const sources = ["db", "wal", "log"];
    for (const id of sources) {
      await makeVolume(cluster, id, fileWriter, local);
      await writeFile(path.join(await mounted(id), "kept"), `${id} as it was`, { flush: true });
    }
    await cutTogether("shop", sources);
    for (const id of sources) {
      await writeFile(path.join(await mounted(id), "kept"), `${id} later`, { flush: true });
      await released(id);
    }
    await removeVolume(cluster, "log");
    const { volumes } = await restored("shop", sources, local.parameters);
    expect(volumes.map(({ id, contentSource }) => [id, contentSource?.snapshot])).toEqual(
      sources.map((id) => [`shop-new-${id}`, `shop-${id}`]),
    );
    for (const id of sources) {
      const dir = await mounted(`shop-new-${id}`);
      expect(await readFile(path.join(dir, "kept"), "utf8")).toBe(`${id} as it was`);
      await released(`shop-new-${id}`);
    }
    await clean("shop", [...sources.slice(0, 2), ...sources.map((id) => `shop-new-${id}`)]);
  });
});

describe("a set of the simulated storage", () => {
  const sources = ["a", "b", "c"];
  beforeAll(async () => {
    cluster = await startCluster({ nodes: ["node-a"] });
    for (const id of sources) await makeVolume(cluster, id);
    await cutTogether("g", sources);
  }, 120_000);

  afterAll(() => cluster?.stop());

  const made = async () => {
    const { state, violations } = await cluster.backend.client.snapshot();
    expect(violations).toEqual([]);
    return state;
  };

  it.each(["controller.create.after-commit", "controller.create.after-call"])(
    "[I4] GR1 a controller killed at %s behind the commit of the set leaves none out and makes none twice",
    { timeout: 180_000 },
    async (point) => {
      await cluster.controller().kill("SIGTERM");
      await cluster.startController({ HOLDFAST_FAILPOINTS: `${point}=kill@2` });
      const revived = (async () => {
        await cluster.controller().exited();
        await cluster.startController();
      })();
      const [{ volumes }] = await Promise.all([restored("g", sources), revived]);
      const { volumes: stored } = await made();
      expect(stored.size).toBe(6);
      for (const [i, source] of sources.entries()) {
        const { snapshot } = await cluster.snapshots.getSnapshot({ namespace, id: `g-${source}` });
        expect(stored.get(volumes[i]?.externalId ?? "")).toMatchObject({ source: { id: snapshot?.externalId } });
      }
      for (const source of sources) await persistently("removing", () => removeVolume(cluster, `g-new-${source}`));
      expect((await made()).volumes.size).toBe(3);
    },
  );

  it("GR2 of which one fails for good is deleted again, and the same request makes another one after that", {
    timeout: 180_000,
  }, async () => {
    const refuse = { method: "CreateVolume", code: "INVALID_ARGUMENT", skip: 1 } as const;
    await cluster.backend.client.addFault(refuse);
    const answer = await restore("g", sources);
    expect(answer.state).toBe(GroupRestoreState.GROUP_RESTORE_STATE_FAILED);
    const failed = answer.volumes.filter((volume) => volumeStateName(volume) === "FAILED");
    expect(failed.length).toBe(1);
    await until("the others to be gone", async () => (await restore("g", sources)).gone.length === 2);
    expect((await made()).volumes.size).toBe(3);
    await removeVolume(cluster, failed[0]?.id ?? "");
    await restored("g", sources);
    await clean("g", [...sources, ...sources.map((id) => `g-new-${id}`)]);
    expect((await made()).volumes.size).toBe(0);
  });
});
