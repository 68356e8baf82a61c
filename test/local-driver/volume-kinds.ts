import {
  type DeepPartial,
  VolumeCapability_AccessMode_Mode as Mode,
  type VolumeCapability,
} from "@holdfast/shared/gen/csi/v1/csi";

/** The four things that a volume of this driver can be. */
export type VolumeKind = "directory" | "ext4" | "xfs" | "block";

const mib = 1n << 20n;

interface KindFacts {
  readonly parameters: Readonly<Record<string, string>>;
  readonly access: "mount" | "block";
  readonly fsType: "" | "ext4" | "xfs";
  readonly bytes: bigint;
}

export const kindFacts: Readonly<Record<VolumeKind, KindFacts>> = {
  directory: { parameters: { type: "directory" }, access: "mount", fsType: "", bytes: mib },
  ext4: { parameters: { type: "image", fsType: "ext4" }, access: "mount", fsType: "ext4", bytes: 32n * mib },
  xfs: { parameters: { type: "image", fsType: "xfs" }, access: "mount", fsType: "xfs", bytes: 320n * mib },
  block: { parameters: { type: "image" }, access: "block", fsType: "", bytes: 8n * mib },
};

export const volumeKinds = Object.keys(kindFacts) as readonly VolumeKind[];

export const capabilityOf = (
  kind: VolumeKind,
  mode: Mode = Mode.SINGLE_NODE_MULTI_WRITER,
): DeepPartial<VolumeCapability> => ({
  accessMode: { mode },
  ...(kindFacts[kind].access === "block" ? { block: {} } : { mount: { fsType: kindFacts[kind].fsType } }),
});
