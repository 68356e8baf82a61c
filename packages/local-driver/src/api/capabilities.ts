import {
  type ControllerServiceCapability,
  ControllerServiceCapability_RPC_Type as ControllerType,
  PluginCapability_VolumeExpansion_Type as ExpansionType,
  type GroupControllerServiceCapability,
  GroupControllerServiceCapability_RPC_Type as GroupType,
  type NodeServiceCapability,
  NodeServiceCapability_RPC_Type as NodeType,
  type PluginCapability,
  PluginCapability_Service_Type as ServiceType,
} from "@holdfast/shared/gen/csi/v1/csi";
import type { DriverSettings } from "../operations.ts";

type Offered = (settings: Pick<DriverSettings, "attach">) => boolean;
type Offers<Names extends Record<string, number>> = Readonly<
  Record<Exclude<keyof Names, "UNKNOWN" | "UNRECOGNIZED">, Offered>
>;

const always: Offered = () => true;
/** These are about ControllerPublishVolume, which is there only when it was switched on. */
const whenAttaching: Offered = ({ attach }) => attach;

/** What the controller knows of a volume's contents it tells by VOLUME_CONDITION; its snapshots are where their volume is. */
const never: Offered = () => false;

/** Every capability of CSI 1.13, and when this driver has it. What is not offered must not be called: UNIMPLEMENTED. */
const controller: Offers<typeof ControllerType> = {
  CREATE_DELETE_VOLUME: always,
  PUBLISH_UNPUBLISH_VOLUME: whenAttaching,
  LIST_VOLUMES: always,
  GET_CAPACITY: always,
  CREATE_DELETE_SNAPSHOT: always,
  LIST_SNAPSHOTS: always,
  CLONE_VOLUME: always,
  PUBLISH_READONLY: whenAttaching,
  EXPAND_VOLUME: always,
  LIST_VOLUMES_PUBLISHED_NODES: whenAttaching,
  VOLUME_CONDITION: always,
  GET_VOLUME: always,
  SINGLE_NODE_MULTI_WRITER: always,
  MODIFY_VOLUME: always,
  GET_SNAPSHOT: always,
  GET_VOLUME_HEALTH: never,
  LIST_VOLUME_HEALTH: never,
};

const node: Offers<typeof NodeType> = {
  STAGE_UNSTAGE_VOLUME: always,
  GET_VOLUME_STATS: always,
  EXPAND_VOLUME: always,
  VOLUME_CONDITION: always,
  SINGLE_NODE_MULTI_WRITER: always,
  VOLUME_MOUNT_GROUP: always,
  GET_VOLUME_HEALTH: always,
  GET_STORAGE_HEALTH: always,
};

const group: Offers<typeof GroupType> = { CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT: always };

const service: Offers<typeof ServiceType> = {
  CONTROLLER_SERVICE: always,
  VOLUME_ACCESSIBILITY_CONSTRAINTS: always,
  GROUP_CONTROLLER_SERVICE: always,
  SNAPSHOT_METADATA_SERVICE: always,
  SNAPSHOT_ACCESSIBILITY_CONSTRAINTS: never,
};

const offered = <Type extends number>(
  offers: Readonly<Record<string, Offered>>,
  types: Readonly<Record<string, Type>>,
  settings: Pick<DriverSettings, "attach">,
): Type[] =>
  Object.entries(offers).flatMap(([name, has]) => {
    const type = types[name];
    return type !== undefined && has(settings) ? [type] : [];
  });

type Settings = Pick<DriverSettings, "attach">;

export const controllerCapabilities = (settings: Settings): ControllerServiceCapability[] =>
  offered(controller, ControllerType, settings).map((type) => ({ rpc: { type } }));

export const nodeCapabilities = (settings: Settings): NodeServiceCapability[] =>
  offered(node, NodeType, settings).map((type) => ({ rpc: { type } }));

export const groupCapabilities = (settings: Settings): GroupControllerServiceCapability[] =>
  offered(group, GroupType, settings).map((type) => ({ rpc: { type } }));

/** Volumes grow while they are in use; only ext4 may have to be staged anew where the kernel does not let it grow mounted. */
export const pluginCapabilities = (settings: Settings): PluginCapability[] => [
  ...offered(service, ServiceType, settings).map((type) => ({ service: { type } })),
  { volumeExpansion: { type: ExpansionType.ONLINE } },
];
