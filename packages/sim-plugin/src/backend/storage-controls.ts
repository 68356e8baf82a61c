import {
  NodeGetStorageHealthResponse_StorageBackendHealth,
  VolumeCapability,
  VolumeHealth_VolumeHealthEntry,
} from "@holdfast/shared/gen/csi/v1/csi";
import { dropUses, putUse, type SimNode, type SimSnapshot, type SimState, type SimVolume } from "./model.ts";
import type { NodeSettings } from "./settings.ts";

/** What befalls the storage and its hosts without a CSI call. */
export interface StorageControls {
  declareNode(node: string, settings: NodeSettings): void;
  /** The node is proved dead: detaching from it is no offence although volumes are mounted there. */
  fence(node: string): void;
  /** The node has restarted: its mounts are gone, and it is no longer fenced. */
  reboot(node: string): void;
  /** A volume made without the orchestrator, or one changed behind its back. */
  addVolume(volume: Pick<SimVolume, "id"> & Partial<SimVolume>): void;
  dropVolume(id: string): void;
  /** A snapshot cut without the orchestrator. */
  addSnapshot(snapshot: Pick<SimSnapshot, "id" | "source">): void;
  /** Attached, or detached, by somebody else than the orchestrator. */
  attachBehind(volume: string, node: string): void;
  detachBehind(volume: string, node: string): void;
  setCondition(volume: string, condition: { readonly abnormal: boolean; readonly message: string }): void;
  /** With a node: as that node sees it, else as the controller does. Numbers that CSI does not name are allowed. */
  setHealth(volume: string, entries: readonly HealthSaid[], node?: string): void;
  setStorageHealth(node: string, entries: readonly (HealthSaid & { readonly use?: VolumeCapability })[]): void;
}

interface HealthSaid {
  readonly status: number;
  readonly reason: string;
  readonly message?: string;
}

const wholeFileSystem = VolumeCapability.fromPartial({ mount: {} });

const blankVolume = {
  capacity: 1024n ** 3n,
  context: {},
  capabilities: [],
  parameters: {},
  mutableParameters: {},
  topology: [],
  argumentsHash: "",
  attachCount: 0,
};

export const createStorageControls = (state: SimState, changed: () => void): StorageControls => {
  const change =
    <A extends readonly unknown[]>(act: (...args: A) => void) =>
    (...args: A): void => {
      act(...args);
      changed();
    };

  return {
    declareNode: change((id, { maxVolumes = 0, topology }) => {
      const node: SimNode = {
        ...state.nodes.get(id),
        id,
        maxVolumes,
        ...(topology === undefined ? {} : { topology }),
        fenced: state.nodes.get(id)?.fenced ?? false,
      };
      state.nodes.set(id, node);
    }),
    fence: change((id) => {
      const node = state.nodes.get(id);
      if (node !== undefined) node.fenced = true;
    }),
    reboot: change((id) => {
      const node = state.nodes.get(id);
      if (node !== undefined) node.fenced = false;
      for (const volume of [...state.stages.keys()]) dropUses(state.stages, volume, (use) => use.node === id);
      for (const volume of [...state.publications.keys()])
        dropUses(state.publications, volume, (use) => use.node === id);
    }),
    addVolume: change((volume) => {
      state.volumes.set(volume.id, { ...blankVolume, name: volume.id, ...state.volumes.get(volume.id), ...volume });
    }),
    addSnapshot: change(({ id, source }) => {
      const cut = { id, name: id, source, size: blankVolume.capacity, createdAt: new Date(0), argumentsHash: "" };
      state.snapshots.set(id, { ...cut, pollsLeft: 0 });
    }),
    dropVolume: change((id) => {
      state.volumes.delete(id);
    }),
    attachBehind: change((volume, node) => {
      const foreign = {
        volume,
        node,
        capability: wholeFileSystem,
        readonly: false,
        publishContext: {},
        secretsHash: "",
      };
      putUse(state.attachments, foreign, (other) => other.node === node);
    }),
    detachBehind: change((volume, node) => {
      dropUses(state.attachments, volume, (use) => use.node === node);
    }),
    setCondition: change((id, condition) => {
      const volume = state.volumes.get(id);
      if (volume !== undefined) volume.condition = condition;
    }),
    setHealth: change((id, entries, node) => {
      const volume = state.volumes.get(id);
      if (volume === undefined) throw new Error(`there is no volume ${id}`);
      const health = entries.map((one) => VolumeHealth_VolumeHealthEntry.fromPartial(one as object));
      if (node === undefined) volume.health = health;
      else volume.nodeHealth = { ...volume.nodeHealth, [node]: health };
    }),
    setStorageHealth: change((id, entries) => {
      const node = state.nodes.get(id);
      if (node === undefined) throw new Error(`there is no node ${id}`);
      node.storageHealth = entries.map(({ use, ...said }) =>
        NodeGetStorageHealthResponse_StorageBackendHealth.fromPartial({ ...(said as object), volumeCapability: use }),
      );
    }),
  };
};
