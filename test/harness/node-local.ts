/**
 * What every driver of local storage has to bear that runs as one plugin name on two nodes: each call goes to the instance that has
 * the storage, and to no other. The driver's own log is the judge.
 */
import { VolumeBinding } from "@holdfast/shared/gen/holdfast/v1/volume";
import { expect } from "vitest";
import type { Cluster } from "./cluster.ts";
import {
  claimVolume,
  fileWriter,
  growVolume,
  mountsUnder,
  namespace,
  releaseWorkload,
  removeVolume,
  stateName,
  volumeStateName,
} from "./scenario.ts";
import { until } from "./until.ts";

export interface NodeLocalDriver {
  readonly plugin: string;
  place(node: string): Record<string, string>;
  /** The methods that its instance on the node was called with, in order. */
  calls(node: string): Promise<readonly string[]>;
  stop(node: string): Promise<unknown>;
  start(node: string): Promise<unknown>;
}

export const nodes = ["node-a", "node-b"] as const;
type Node = (typeof nodes)[number];
export const otherThan = (node: Node): Node => (node === "node-a" ? "node-b" : "node-a");

const waitFor = { seconds: 30n, nanos: 0 };
const shortly = { seconds: 0n, nanos: 500_000_000 };

type Asked = Parameters<Cluster["volumes"]["createVolume"]>[0];

export const createNodeLocal = (cluster: Cluster, driver: NodeLocalDriver) => {
  const changing =
    /^(Create|Delete|ControllerPublish|ControllerUnpublish|ControllerExpand|ControllerModify|ValidateVolumeCapabilities)/;
  const changes = async (node: Node): Promise<readonly string[]> =>
    (await driver.calls(node)).filter((method) => changing.test(method));

  /** What an instance was called with while `act` ran; the other one was called with nothing that changes. */
  const onlyAt = async (node: Node, act: () => Promise<unknown>): Promise<readonly string[]> => {
    const [here, there] = [await changes(node), await changes(otherThan(node))];
    await act();
    expect((await changes(otherThan(node))).slice(there.length), `calls at ${otherThan(node)}`).toEqual([]);
    return (await changes(node)).slice(here.length);
  };

  const create = async (id: string, more: Asked = {}) =>
    (
      await cluster.volumes.createVolume({
        namespace,
        id,
        plugin: driver.plugin,
        capacity: { requiredBytes: 16n << 20n },
        capabilities: [fileWriter],
        waitFor,
        ...more,
      })
    ).volume;

  const at = (node: Node): Asked => ({ topology: { required: [{ segments: driver.place(node) }] } });

  const explained = async (id: string): Promise<string> =>
    JSON.stringify(await cluster.volumes.explainVolume({ namespace, id }), (_key, value: unknown) =>
      typeof value === "bigint" ? String(value) : value,
    );

  const use = async (id: string, node: Node): Promise<void> => {
    expect(stateName(await claimVolume(cluster, id, { node })), id).toBe("ACTIVE");
  };

  const letGo = async (id: string): Promise<void> => {
    expect((await releaseWorkload(cluster, `w-${id}`)).map(stateName)).toEqual(["RELEASED"]);
  };

  return {
    create,
    at,
    onlyAt,
    explained,
    use,
    letGo,
    changes,

    /** Made by topology and by first claim, used, cut, restored, grown: each call at the node that has the volume. */
    async wholeLife(node: Node): Promise<void> {
      const [placed, claimed, copy, cut] = [`t-${node}`, `c-${node}`, `r-${node}`, `s-${node}`];
      const made = await onlyAt(node, async () => {
        const volume = await create(placed, at(node));
        expect(volume && volumeStateName(volume)).toBe("AVAILABLE");
        expect(volume?.topology?.accessible.map(({ segments }) => segments)).toEqual([driver.place(node)]);
        await create(claimed, { binding: VolumeBinding.VOLUME_BINDING_FIRST_CLAIM, waitFor: undefined });
        await use(claimed, node);
        await use(placed, node);
      });
      expect(made.filter((method) => method === "CreateVolume")).toHaveLength(2);
      const worked = await onlyAt(node, async () => {
        await cluster.snapshots.createSnapshot({ namespace, id: cut, volume: placed, waitFor, waitUntilReady: true });
        await create(copy, { contentSource: { snapshot: cut } });
        await letGo(placed);
        await letGo(claimed);
        expect((await growVolume(cluster, claimed))?.capacity?.actualBytes).toBe(32n << 20n);
      });
      expect(new Set(worked)).toEqual(
        new Set(["CreateSnapshot", "CreateVolume", "ControllerExpandVolume", "ControllerUnpublishVolume"]),
      );
    },

    /** Deleted while the other instance alone is there: nothing is called, and all of it goes once the right one is back. */
    async goneOnReturn(node: Node): Promise<void> {
      const volumes = [`t-${node}`, `c-${node}`, `r-${node}`];
      await driver.stop(node);
      const cut = { namespace, id: `s-${node}` };
      await onlyAt(node, async () => {
        for (const id of volumes)
          await cluster.volumes.deleteVolume({ namespace, id, waitFor: shortly }).catch(() => undefined);
        await cluster.snapshots.deleteSnapshot({ ...cut, waitFor: shortly }).catch(() => undefined);
        for (const id of volumes) {
          const said = await explained(id);
          expect(said).toContain("PLUGIN_NOT_READY");
          expect(said).toContain(node);
        }
      });
      const deleted = await onlyAt(node, async () => {
        await driver.start(node);
        for (const id of volumes) await removeVolume(cluster, id);
        await cluster.snapshots.deleteSnapshot({ ...cut, waitFor });
      });
      expect(deleted.toSorted()).toEqual(["DeleteSnapshot", "DeleteVolume", "DeleteVolume", "DeleteVolume"]);
      expect(await mountsUnder(cluster.dir), "mounts").toEqual([]);
    },

    /** Both instances can be called. */
    ready: (count: number) =>
      until(`${count} instances to be seen`, async () => {
        const seen = await Promise.all(nodes.map((name) => cluster.nodes.getNode({ name })));
        return seen.flatMap(({ node }) => node?.plugins ?? []).filter(({ health }) => health === 1).length === count;
      }),
  };
};
