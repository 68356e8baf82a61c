import type { VolumeType } from "./records.ts";

export interface DriverSettings {
  /** local.holdfast.dev unless set otherwise. */
  readonly name: string;
  readonly version: string;
  readonly nodeId: string;
  readonly topologyKey: string;
  /** Of a volume whose parameters name none. */
  readonly defaultType: VolumeType;
  /** Images need loop devices, and so root. */
  readonly types: readonly VolumeType[];
  readonly defaultFsType: "ext4" | "xfs";
  /** Of an image of which no size is asked. */
  readonly defaultBytes: bigint;
  /** ControllerPublishVolume is offered at all. */
  readonly attach: boolean;
  /** 0: no limit. */
  readonly maxVolumesPerNode: number;
}
