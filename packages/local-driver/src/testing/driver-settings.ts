import type { DriverSettings } from "../operations.ts";

/** Of a driver on a host where everything is allowed and nothing has to be attached. */
export const driverSettings: DriverSettings = {
  name: "local.holdfast.dev",
  version: "0.0.0",
  nodeId: "node-a",
  topologyKey: "local.holdfast.dev/node",
  defaultType: "image",
  types: ["directory", "image"],
  defaultFsType: "ext4",
  defaultBytes: 64n << 20n,
  attach: false,
  maxVolumesPerNode: 0,
};
