/** Snapshots, groups and their restore as a set over real processes: their data, controllers that die on the way, and a member that fails. */
import { open, readFile } from "node:fs/promises";
import path from "node:path";
import { snapshotFailpoints } from "@holdfast/controller/reconcile/failpoints";
import {
  GroupRestoreState,
  type RestoreSnapshotGroupResponse,
  type Snapshot,
  type SnapshotGroup,
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
import { createSeededRandom, seedOfRun } from "../local-driver/seeded-random.ts";
import { sample } from "../support/full.ts";

/** Where it dies between the commit of a set and its last volume: `npm test` tries one. */
const groupPoints = createSeededRandom(seedOfRun()).some(
  ["controller.create.after-commit", "controller.create.after-call"],
  sample(2, 1),
);
const waitFor = { seconds: 45n, nanos: 0 };
const ready = SnapshotState.SNAPSHOT_STATE_READY;

const demand = (ok: boolean, what: string): void => {
  if (!ok) throw new Error(what);
};

const cut = async (cluster: Cluster, id: string, volume: string): Promise<Snapshot> =>
  persistently(`snapshot ${id}`, async () => {
    const { snapshot } = await cluster.snapshots.createSnapshot({
      namespace,
      id,
      volume,
      waitFor,
      waitUntilReady: true,
    });
    demand(snapshot?.state === ready, `the snapshot is ${snapshot?.state}`);
    return snapshot as Snapshot;
  });

const uncut = (cluster: Cluster, id: string): Promise<void> =>
  persistently(`the deletion of ${id}`, async () => {
    const { snapshot } = await cluster.snapshots.deleteSnapshot({ namespace, id, waitFor });
    demand(snapshot === undefined, "the snapshot is still there");
    return undefined;
  });

const cutTogether = async (cluster: Cluster, id: string, volumes: readonly string[]): Promise<SnapshotGroup> =>
  persistently(`group ${id}`, async () => {
    const members = volumes.map((volume) => ({ volume, snapshot: `${id}-${volume}` }));
    const { group } = await cluster.snapshots.createSnapshotGroup({
      namespace,
      id,
      members,
      waitFor,
      waitUntilReady: true,
    });
    demand(group?.state === ready, `the group is ${group?.state}`);
    return group as SnapshotGroup;
  });

const uncutTogether = (cluster: Cluster, id: string): Promise<void> =>
  persistently(`the deletion of ${id}`, async () => {
    const { group } = await cluster.snapshots.deleteSnapshotGroup({ namespace, id, waitFor });
    demand(group === undefined, "the group is still there");
    return undefined;
  });

/** A volume made from something else, until it is there. */
const copy = async (
  cluster: Cluster,
  id: string,
  contentSource: { readonly snapshot: string } | { readonly volume: string },
  of: { readonly plugin: string; readonly parameters?: Record<string, string> },
): Promise<void> =>
  persistently(`copy ${id}`, async () => {
    const { volume } = await cluster.volumes.createVolume({
      namespace,
      id,
      ...of,
      capabilities: [fileWriter],
      contentSource,
      waitFor,
    });
    demand(volume !== undefined && volumeStateName(volume) === "AVAILABLE", "the copy is not available");
    return undefined;
  });

const restore = (
  cluster: Cluster,
  group: string,
  sources: readonly string[],
  parameters: Record<string, string> = {},
): Promise<RestoreSnapshotGroupResponse> => {
  const members = sources.map((source) => ({
    source,
    id: `${group}-new-${source}`,
    capabilities: [fileWriter],
    parameters,
  }));
  return cluster.snapshots.restoreSnapshotGroup({ namespace, group, members, waitFor });
};
/** A caller that repeats its call until all are there, as it should. */
const restored = (cluster: Cluster, group: string, ...of: readonly [readonly string[], Record<string, string>?]) =>
  persistently(`the restore of ${group}`, async (): Promise<RestoreSnapshotGroupResponse> => {
    const answer = await restore(cluster, group, ...of);
    demand(answer.state === GroupRestoreState.GROUP_RESTORE_STATE_READY, `the set is ${answer.state}`);
    return answer;
  });

describe("snapshots of the simulated storage, over real processes", () => {
  let cluster: Cluster;
  const plugin = "sim.holdfast.dev";

  beforeAll(async () => {
    cluster = await startCluster({ nodes: ["node-a"], backend: { snapshotPolls: 2 } });
  });
  afterAll(() => cluster?.stop());

  const expectNothingLeft = async (): Promise<void> => {
    const { state, violations } = await cluster.backend.client.snapshot();
    expect(violations).toEqual([]);
    expect([state.volumes.size, state.snapshots.size, state.groups.size]).toEqual([0, 0, 0]);
  };

  /** A caller that repeats its calls until they are answered, as it should. */
  const wholeLife = async (n: number): Promise<void> => {
    const [one, two] = [`one-${n}`, `two-${n}`];
    for (const id of [one, two])
      await persistently(`volume ${id}`, async () =>
        demand(volumeStateName(await makeVolume(cluster, id)) === "AVAILABLE", "the volume is not available"),
      );
    await cut(cluster, `s-${n}`, one);
    await cutTogether(cluster, `g-${n}`, [one, two]);
    await copy(cluster, `copy-${n}`, { snapshot: `g-${n}-${two}` }, { plugin });
    for (const id of [one, two, `copy-${n}`]) await persistently(`removing ${id}`, () => removeVolume(cluster, id));
    await uncutTogether(cluster, `g-${n}`);
    await uncut(cluster, `s-${n}`);
    await expectNothingLeft();
  };

  it.each(snapshotFailpoints)(
    "[I4] [I5] [I6] a controller killed at %s leaks nothing and sticks nowhere",
    {
      timeout: 180_000,
    },
    async (point) => {
      await cluster.controller().kill("SIGTERM");
      await cluster.startController({ HOLDFAST_FAILPOINTS: `${point}=kill` });
      await cluster.backend.client.clear();
      const revived = (async () => {
        await cluster.controller().exited();
        await cluster.startController();
      })();
      await Promise.all([wholeLife(snapshotFailpoints.indexOf(point)), revived]);
    },
  );

  it("C69 blocks are streamed from where they are asked for, and an end is told apart from a break", {
    timeout: 180_000,
  }, async () => {
    await persistently("the volume", () => makeVolume(cluster, "blocks", fileWriter, { bytes: 64n << 20n }));
    await cut(cluster, "b1", "blocks");
    const offsets = async (startingOffset: bigint): Promise<bigint[]> => {
      const seen: bigint[] = [];
      for await (const { blocks } of cluster.snapshots.getMetadataAllocated({
        namespace,
        snapshot: "b1",
        startingOffset,
        maxResults: 3,
      })) {
        expect(blocks.length).toBeLessThanOrEqual(3);
        seen.push(...blocks.map(({ byteOffset }) => byteOffset));
      }
      return seen;
    };
    const all = await offsets(0n);
    expect(all.length).toBeGreaterThan(3);
    expect(await offsets(all[2] ?? 0n)).toEqual(all.slice(2));
    await expect(offsets(1n << 40n)).rejects.toMatchObject({ reason: "STREAM_BROKEN", kind: "out_of_range" });
    await uncut(cluster, "b1");
    await removeVolume(cluster, "blocks");
    await expectNothingLeft();
  });

  describe("a group restored as a set", () => {
    const sources = ["a", "b", "c"];
    beforeAll(async () => {
      for (const id of sources) await makeVolume(cluster, id);
      await cutTogether(cluster, "g", sources);
    }, 120_000);

    const made = async () => {
      const { state, violations } = await cluster.backend.client.snapshot();
      expect(violations).toEqual([]);
      return state;
    };

    it.each(groupPoints)(
      "[I4] GR1 a controller killed at %s behind the commit of the set leaves none out and makes none twice",
      { timeout: 180_000 },
      async (point) => {
        await cluster.controller().kill("SIGTERM");
        await cluster.startController({ HOLDFAST_FAILPOINTS: `${point}=kill@2` });
        const revived = (async () => {
          await cluster.controller().exited();
          await cluster.startController();
        })();
        const [{ volumes }] = await Promise.all([restored(cluster, "g", sources), revived]);
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
      const answer = await restore(cluster, "g", sources);
      expect(answer.state).toBe(GroupRestoreState.GROUP_RESTORE_STATE_FAILED);
      const failed = answer.volumes.filter((volume) => volumeStateName(volume) === "FAILED");
      expect(failed.length).toBe(1);
      await until("the others to be gone", async () => (await restore(cluster, "g", sources)).gone.length === 2);
      expect((await made()).volumes.size).toBe(3);
      await removeVolume(cluster, failed[0]?.id ?? "");
      await restored(cluster, "g", sources);
      for (const id of [...sources, ...sources.map((source) => `g-new-${source}`)]) await removeVolume(cluster, id);
      await uncutTogether(cluster, "g");
      await expectNothingLeft();
    });
  });
});

describe("snapshots of a plugin that runs on a node only", () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await startCluster({ nodes: ["node-a"], controllerHalvesOn: ["node-a"], backend: { snapshotPolls: 1 } });
    await cluster.node("node-a").startControllerHalf();
  });
  afterAll(() => cluster?.stop());

  it("are cut, told of block by block and deleted through the agent there", { timeout: 180_000 }, async () => {
    const of = { bytes: 64n << 20n };
    await persistently("the volume", async () =>
      demand(volumeStateName(await makeVolume(cluster, "far", fileWriter, of)) === "AVAILABLE", "not available yet"),
    );
    await cut(cluster, "far-1", "far");
    await cutTogether(cluster, "far-g", ["far"]);
    const blocks = async (startingOffset: bigint): Promise<bigint[]> => {
      const seen: bigint[] = [];
      const question = { namespace, snapshot: "far-1", startingOffset, maxResults: 2 };
      for await (const message of cluster.snapshots.getMetadataAllocated(question))
        seen.push(...message.blocks.map(({ byteOffset }) => byteOffset));
      return seen;
    };
    const all = await blocks(0n);
    expect(all.length).toBeGreaterThan(4);
    expect(await blocks(all[3] ?? 0n)).toEqual(all.slice(3));
    const listed = await cluster.snapshots.listExternalSnapshots({ plugin: "sim.holdfast.dev" });
    expect(listed.snapshots.map(({ knownId }) => knownId).sort()).toEqual(["far-1", "far-g-far"]);
    await uncutTogether(cluster, "far-g");
    await uncut(cluster, "far-1");
    await persistently("removing far", () => removeVolume(cluster, "far"));
    const { state, violations } = await cluster.backend.client.snapshot();
    expect(violations).toEqual([]);
    expect([state.volumes.size, state.snapshots.size, state.groups.size]).toEqual([0, 0, 0]);
  });
});

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: loop devices and real mounts need root");

describe.skipIf(!root)("snapshots of the local driver", () => {
  let cluster: Cluster;
  const local = { plugin: "local.holdfast.dev", parameters: { type: "image", fsType: "ext4" } };

  beforeAll(async () => {
    cluster = await startCluster({ nodes: ["node-a"], localDriver: { HOLDFAST_LOCAL_ATTACH: "1" } });
  });
  afterAll(() => cluster?.stop());

  const mounted = async (id: string): Promise<string> => {
    const claim = await persistently(`the claim on ${id}`, () => claimVolume(cluster, id));
    expect(stateName(claim)).toBe("ACTIVE");
    return claim.hostPath;
  };
  const released = (id: string): Promise<void> =>
    persistently(`the release of ${id}`, async () => {
      const claims = await releaseWorkload(cluster, `w-${id}`);
      demand(
        claims.every((one) => stateName(one) === "RELEASED"),
        "not released yet",
      );
      return undefined;
    });
  const write = async (dir: string, text: string): Promise<void> => {
    const file = await open(path.join(dir, "kept"), "w");
    try {
      await file.write(text);
      await file.sync();
    } finally {
      await file.close();
    }
  };
  const read = (dir: string): Promise<string> => readFile(path.join(dir, "kept"), "utf8");

  it("are cut while the volume is in use, restored, copied and compared", { timeout: 180_000 }, async () => {
    await makeVolume(cluster, "data", fileWriter, { ...local, bytes: 32n << 20n });
    const dir = await mounted("data");
    await write(dir, "as it was");
    const first = await cut(cluster, "s1", "data");
    expect(first).toMatchObject({ volume: "data", sizeBytes: 32n << 20n });
    await write(dir, "as it is now");
    await cut(cluster, "s2", "data");
    await copy(cluster, "before", { snapshot: "s1" }, local);
    expect(await read(await mounted("before"))).toBe("as it was");
    await cutTogether(cluster, "both", ["data", "before"]);
    await released("data");
    await copy(cluster, "clone", { volume: "data" }, local);
    await copy(cluster, "again", { snapshot: "both-before" }, local);
    expect(await read(await mounted("clone"))).toBe("as it is now");
    expect(await read(await mounted("again"))).toBe("as it was");

    let changed = 0n;
    for await (const { blocks } of cluster.snapshots.getMetadataDelta({
      namespace,
      baseSnapshot: "s1",
      targetSnapshot: "s2",
    }))
      for (const { sizeBytes } of blocks) changed += sizeBytes;
    expect(changed).toBeGreaterThan(0n);

    const { snapshots } = await cluster.snapshots.listExternalSnapshots({ plugin: local.plugin });
    expect(snapshots.map(({ knownId }) => knownId).sort()).toEqual(["both-before", "both-data", "s1", "s2"]);
    await expect(cluster.snapshots.deleteSnapshot({ namespace, id: "both-data" })).rejects.toMatchObject({
      reason: "SNAPSHOT_IN_USE",
      metadata: { group: "both" },
    });

    for (const id of ["before", "clone", "again"]) await released(id);
    for (const id of ["data", "before", "clone", "again"])
      await persistently(`removing ${id}`, () => removeVolume(cluster, id));
    await uncutTogether(cluster, "both");
    for (const id of ["s1", "s2"]) await uncut(cluster, id);
    await until("nothing to be left at the driver", async () => {
      const left = await cluster.snapshots.listExternalSnapshots({ plugin: local.plugin });
      return left.snapshots.length === 0;
    });
  });

  it("are restored as a group, each from its own source, although the sources have gone on or are gone", {
    timeout: 180_000,
  }, async () => {
    const sources = ["db", "wal", "log"];
    for (const id of sources) {
      await makeVolume(cluster, id, fileWriter, { ...local, bytes: 16n << 20n });
      await write(await mounted(id), `${id} as it was`);
    }
    await cutTogether(cluster, "shop", sources);
    for (const id of sources) {
      await write(await mounted(id), `${id} later`);
      await released(id);
    }
    await removeVolume(cluster, "log");
    const { volumes } = await restored(cluster, "shop", sources, local.parameters);
    expect(volumes.map(({ id, contentSource }) => [id, contentSource?.snapshot])).toEqual(
      sources.map((id) => [`shop-new-${id}`, `shop-${id}`]),
    );
    for (const id of sources) {
      expect(await read(await mounted(`shop-new-${id}`))).toBe(`${id} as it was`);
      await released(`shop-new-${id}`);
    }
    for (const id of ["db", "wal", ...sources.map((source) => `shop-new-${source}`)])
      await persistently(`removing ${id}`, () => removeVolume(cluster, id));
    await uncutTogether(cluster, "shop");
  });
});
