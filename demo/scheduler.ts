import { type Claim, ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { AccessMode, AttachmentMode } from "@holdfast/shared/gen/holdfast/v1/common";
import { SnapshotState } from "@holdfast/shared/gen/holdfast/v1/snapshot";
import { type Expansion, VolumeState } from "@holdfast/shared/gen/holdfast/v1/volume";
import type { Cluster } from "../test/harness/cluster.ts";

export const plugin = "local.holdfast.dev";
export const namespace = "demo";

export interface NewVolume {
  readonly id: string;
  readonly bytes: bigint;
  /** The snapshot that it is made from. */
  readonly from?: string;
}

/** What a scheduler asks for, each answered when it is done; anything else than that is an error. */
export interface Scheduler {
  /** Answers the plugin's own id for it. */
  create(volume: NewVolume): Promise<string>;
  /** All of them or none, in the order of the ids. */
  claim(workload: string, ...volumes: readonly string[]): Promise<readonly Claim[]>;
  release(workload: string): Promise<void>;
  /** Answers what the plugin made, and what it still owes to those who have it mounted, in its words. */
  expand(volume: string, bytes: bigint): Promise<{ readonly bytes: bigint; readonly owed?: string }>;
  /** `live`: files are copied while they may be written, where the driver cannot hold them still. */
  snapshot(volume: string, id: string, live: boolean): Promise<void>;
  explain(volume: string): Promise<readonly string[]>;
  deleteSnapshot(id: string): Promise<void>;
  deleteVolume(id: string): Promise<void>;
}

const wait = { waitFor: { seconds: 60n, nanos: 0 } };
const where = { namespace };
const capability = {
  attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
  accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER,
};

const must = <T>(value: T | undefined, what: string): T => {
  if (value === undefined) throw new Error(`the answer has no ${what}`);
  return value;
};

interface Settled {
  readonly state: number;
  readonly lastError?: { readonly message: string } | undefined;
}

const expectState = (names: Readonly<Record<string, number | string>>, wanted: number, record: Settled): void => {
  if (record.state === wanted) return;
  const name = (state: number): string => Object.keys(names).find((key) => names[key] === state) ?? String(state);
  throw new Error(`expected ${name(wanted)}, found ${name(record.state)}: ${record.lastError?.message ?? ""}`);
};

/** The storage is bigger; a filesystem that is mounted is not yet. */
const whyOwed = ({ controllerDone, nodes, lastError }: Expansion): string => {
  const [node] = nodes;
  if (!controllerDone || node === undefined)
    throw new Error(`it is not expanded: ${lastError?.message ?? "no answer"}`);
  return node.lastError?.message ?? `node ${node.node} has not answered`;
};

/** `node`: where every workload runs. */
export const createScheduler = ({ volumes, claims, snapshots }: Cluster, node: string): Scheduler => ({
  async create({ id, bytes, from }) {
    const answer = await volumes.createVolume({
      ...where,
      ...wait,
      id,
      plugin,
      capacity: { requiredBytes: bytes },
      capabilities: [capability],
      ...(from === undefined ? {} : { contentSource: { snapshot: from } }),
    });
    const volume = must(answer.volume, "volume");
    expectState(VolumeState, VolumeState.VOLUME_STATE_AVAILABLE, volume);
    return volume.externalId;
  },

  async claim(workload, ...ids) {
    const wanted = ids.map((volume) => ({ volume, alias: volume, capability }));
    const answer = await claims.createClaims({ ...where, ...wait, workload, node, claims: wanted });
    return ids.map((id) => {
      const claim = must(
        answer.claims.find((one) => one.volume === id),
        `claim of ${id}`,
      );
      expectState(ClaimState, ClaimState.CLAIM_STATE_ACTIVE, claim);
      return claim;
    });
  },

  async release(workload) {
    const answer = await claims.releaseClaims({ ...where, ...wait, workload });
    if (answer.claims.length === 0) throw new Error(`the release of ${workload} names no claim`);
    for (const claim of answer.claims) expectState(ClaimState, ClaimState.CLAIM_STATE_RELEASED, claim);
  },

  async expand(id, bytes) {
    const answer = await volumes.expandVolume({ ...where, ...wait, id, capacity: { requiredBytes: bytes } });
    const { capacity, expansion } = must(answer.volume, "volume");
    const { actualBytes } = must(capacity, "capacity");
    return expansion === undefined ? { bytes: actualBytes } : { bytes: actualBytes, owed: whyOwed(expansion) };
  },

  async snapshot(volume, id, live) {
    const parameters: Record<string, string> = live ? { live: "allow" } : {};
    const answer = await snapshots.createSnapshot({ ...where, ...wait, id, volume, parameters, waitUntilReady: true });
    expectState(SnapshotState, SnapshotState.SNAPSHOT_STATE_READY, must(answer.snapshot, "snapshot"));
  },

  explain: async (id) => (await volumes.explainVolume({ ...where, id })).findings,

  async deleteSnapshot(id) {
    const { snapshot } = await snapshots.deleteSnapshot({ ...where, ...wait, id });
    if (snapshot !== undefined) throw new Error(`snapshot ${id} is still there: ${snapshot.lastError?.message ?? ""}`);
  },

  async deleteVolume(id) {
    const { volume } = await volumes.deleteVolume({ ...where, ...wait, id });
    if (volume !== undefined) throw new Error(`volume ${id} is still there: ${volume.lastError?.message ?? ""}`);
  },
});
