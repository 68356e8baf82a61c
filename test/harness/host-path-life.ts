/** The life of volumes on one node of csi-driver-host-path: every RPC of the driver, with the data compared. Each part may be disturbed. */
import { type FileHandle, mkdir, open } from "node:fs/promises";
import path from "node:path";
import { type Claim, ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import type { LastError } from "@holdfast/shared/gen/holdfast/v1/common";
import { SnapshotState } from "@holdfast/shared/gen/holdfast/v1/snapshot";
import { ReclaimPolicy, type Volume, VolumeState } from "@holdfast/shared/gen/holdfast/v1/volume";
import { patternOf } from "../local-driver/seeded-random.ts";
import type { Cluster } from "./cluster.ts";
import type { RecordedMethod } from "./host-path-log.ts";
import { type HostPathNode, hostPathPlugin } from "./host-path-world.ts";
import { blockWriter, fileWriter, isGrown, isModified, namespace, stateName } from "./scenario.ts";

/** Asked until it answers something, whoever is killed meanwhile; `methods` are those of the driver that it leads to, in order. */
export type Part = <T>(
  what: string,
  about: { readonly volume: string },
  methods: readonly RecordedMethod[],
  ask: (side: Cluster) => Promise<T | undefined>,
) => Promise<T>;

const soon = { seconds: 3n, nanos: 0 };
const bytes = 1 << 20;

const filled = async (file: FileHandle, seed: number): Promise<void> => {
  await file.write(patternOf(seed, bytes), 0, bytes, 0);
  await file.sync();
  await file.close();
};

export interface LifeOptions {
  readonly node: HostPathNode;
  readonly block: boolean;
  /** Makes its names and its data. */
  readonly number: number;
  readonly part: Part;
  /** Deleted, and to be deleted once more when a call without answer can no longer cut it anew. */
  readonly later: (what: string, ask: (side: Cluster) => Promise<true | undefined>) => void;
}

export const liveThrough = async ({ node, block, number, part, later }: LifeOptions): Promise<void> => {
  const name = (word: string): string => `${word}-${node.slice(-1)}${number}`;
  const [first, restored, copied, taken] = ["first", "restored", "copied", "taken"].map(name) as [
    string,
    string,
    string,
    string,
  ];
  const [cut, group] = [name("cut"), name("group")];
  const topology = { required: [{ segments: { "topology.hostpath.csi/node": node } }] };
  const common = { namespace, plugin: hostPathPlugin, capabilities: [block ? blockWriter : fileWriter], waitFor: soon };
  const available = (volume: Volume | undefined): Volume | undefined =>
    volume?.state === VolumeState.VOLUME_STATE_AVAILABLE ? volume : undefined;

  const make = (volume: string, methods: readonly RecordedMethod[], source?: Record<"snapshot" | "volume", string>) =>
    part(`${volume} to be made`, { volume }, methods, async ({ volumes }) =>
      available(
        (
          await volumes.createVolume({
            ...common,
            id: volume,
            capacity: { requiredBytes: 16n << 20n },
            ...(source === undefined ? { topology } : { contentSource: source }),
          })
        ).volume,
      ),
    );
  const use = (volume: string, methods: readonly RecordedMethod[] = []): Promise<Claim> =>
    part(`${volume} to be mounted`, { volume }, methods, async ({ claims }) => {
      const asked = { namespace, workload: `w-${volume}`, node, claims: [{ volume }], waitFor: soon };
      const [claim] = (await claims.createClaims(asked)).claims;
      if (claim?.state === ClaimState.CLAIM_STATE_FAILED)
        throw new Error(`FAILED: ${claim.lastError?.reason} ${claim.lastError?.message}`);
      return claim?.state === ClaimState.CLAIM_STATE_ACTIVE ? claim : undefined;
    });
  const letGo = (volume: string, methods: readonly RecordedMethod[] = []) =>
    part(`${volume} to be released`, { volume }, methods, async ({ claims }) => {
      const released = (await claims.releaseClaims({ namespace, workload: `w-${volume}`, waitFor: soon })).claims;
      return released.every((claim) => stateName(claim) === "RELEASED") ? true : undefined;
    });
  const remove = (volume: string, methods: readonly RecordedMethod[] = []) =>
    part(`${volume} to be deleted`, { volume }, methods, async ({ volumes }) => {
      const { volume: left } = await volumes.deleteVolume({ namespace, id: volume, waitFor: soon });
      return left === undefined ? true : undefined;
    });
  const dataAt = ({ hostPath }: Claim): string => (block ? hostPath : path.join(hostPath, "data"));
  /** The whole of what was written is allocated at the cut, and nothing of it has changed when the group is cut. */
  const compareBlocks = async ({ snapshots }: Cluster): Promise<void> => {
    const [member, since] = [`${group}-${first}`, cut];
    const sizes = { allocated: 0n, changed: 0n };
    for await (const { blocks } of snapshots.getMetadataAllocated({ namespace, snapshot: cut }))
      for (const { sizeBytes } of blocks) sizes.allocated += sizeBytes;
    for await (const { blocks } of snapshots.getMetadataDelta({
      namespace,
      baseSnapshot: since,
      targetSnapshot: member,
    }))
      for (const { sizeBytes } of blocks) sizes.changed += sizeBytes;
    if (sizes.allocated < BigInt(bytes) || sizes.changed > 0n)
      throw new Error(`${cut}: ${sizes.allocated} bytes allocated, ${sizes.changed} changed until ${group}`);
  };
  const check = async (volume: string): Promise<void> => {
    const file = await open(dataAt(await use(volume)), "r");
    const { buffer } = await file.read(Buffer.alloc(bytes), 0, bytes, 0);
    await file.close();
    if (!buffer.equals(patternOf(number, bytes))) throw new Error(`${volume} has other data than it was given`);
    await letGo(volume);
  };

  await make(first, ["CreateVolume"]);
  const claim = await use(first, ["ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume"]);
  if (!block) await mkdir(path.join(claim.hostPath, "sub"));
  await filled(await open(dataAt(claim), block ? "r+" : "w"), number);
  await part(`${cut} to be cut`, { volume: first }, ["CreateSnapshot"], async ({ snapshots }) => {
    const asked = { namespace, id: cut, volume: first, waitFor: soon, waitUntilReady: true };
    const { snapshot } = await snapshots.createSnapshot(asked);
    return snapshot?.state === SnapshotState.SNAPSHOT_STATE_READY ? true : undefined;
  });
  await make(restored, [], { snapshot: cut } as Record<"snapshot" | "volume", string>);
  // The driver forgets what it copied from: it refuses the repeat of a call whose answer was lost, until a person removes the copy.
  await make(copied, ["CreateVolume"], { volume: first } as Record<"snapshot" | "volume", string>);
  await part(`${group} to be cut`, { volume: first }, ["CreateVolumeGroupSnapshot"], async ({ snapshots }) => {
    const members = [first, restored].map((volume) => ({ volume, snapshot: `${group}-${volume}` }));
    const asked = { namespace, id: group, members, waitFor: soon, waitUntilReady: true };
    const { group: made } = await snapshots.createSnapshotGroup(asked);
    return made?.state === SnapshotState.SNAPSHOT_STATE_READY ? true : undefined;
  });
  await part(`${first} to grow`, { volume: first }, ["ControllerExpandVolume"], async ({ volumes }) => {
    const asked = { namespace, id: first, capacity: { requiredBytes: 32n << 20n }, waitFor: soon };
    return isGrown((await volumes.expandVolume(asked)).volume) ? true : undefined;
  });
  await part(`${first} to be changed`, { volume: first }, [], async ({ volumes }) => {
    const mutableParameters = { k: String(number) };
    const { volume } = await volumes.modifyVolume({ namespace, id: first, mutableParameters, waitFor: soon });
    return isModified(volume, mutableParameters) ? true : undefined;
  });
  await part("questions to be answered", { volume: first }, [], async (side) => {
    const { nodes: stats } = await side.volumes.getVolumeStats({ namespace, id: first });
    if (stats.some(({ error }) => error !== undefined)) return undefined;
    const [segments] = topology.required;
    await side.volumes.getCapacity({
      plugin: hostPathPlugin,
      ...(segments === undefined ? {} : { topology: segments }),
    });
    await side.volumes.listExternalVolumes({ plugin: hostPathPlugin });
    await side.snapshots.listExternalSnapshots({ plugin: hostPathPlugin });
    for await (const _ of side.repair.scanOrphans({ plugins: [hostPathPlugin], dryRun: true, reason: "test" }));
    if (block) await compareBlocks(side);
    return true;
  });
  await check(restored);
  await letGo(first, ["NodeUnpublishVolume", "NodeUnstageVolume", "ControllerUnpublishVolume"]);
  await check(copied);

  const { externalId, context } = await make(copied, [], { volume: first } as Record<"snapshot" | "volume", string>);
  await part(`${copied} to be given away`, { volume: copied }, [], async ({ volumes }) => {
    await volumes.deregisterVolume({ namespace, id: copied }).catch((error: { reason?: string }) => {
      if (error.reason !== "VOLUME_NOT_FOUND") throw error;
    });
    return true;
  });
  await part(`${taken} to be taken over`, { volume: taken }, [], async ({ volumes }) => {
    const policy = { reclaim: ReclaimPolicy.RECLAIM_POLICY_DELETE };
    const asked = { ...common, id: taken, externalId, context, policy, accessibleTopology: topology.required };
    return available((await volumes.registerVolume(asked)).volume);
  });
  await remove(taken);
  const uncut = async (
    id: string,
    method: RecordedMethod,
    ask: (side: Cluster) => Promise<{ readonly lastError?: LastError | undefined } | undefined>,
  ): Promise<void> => {
    const what = `${id} to be deleted`;
    const gone = async (side: Cluster): Promise<true | undefined> =>
      (await ask(side)) === undefined ? true : undefined;
    await part(what, { volume: first }, [method], async (side) => {
      const left = await ask(side);
      if (left !== undefined && left.lastError?.reason !== "CUT_UNANSWERED") return undefined;
      if (left !== undefined) later(what, gone);
      return true;
    });
  };
  await uncut(
    group,
    "DeleteVolumeGroupSnapshot",
    async ({ snapshots }) => (await snapshots.deleteSnapshotGroup({ namespace, id: group, waitFor: soon })).group,
  );
  await uncut(
    cut,
    "DeleteSnapshot",
    async ({ snapshots }) => (await snapshots.deleteSnapshot({ namespace, id: cut, waitFor: soon })).snapshot,
  );
  await remove(restored);
  await remove(first, ["DeleteVolume"]);
};
