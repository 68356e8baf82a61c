import {
  ControllerServiceCapability_RPC_Type as ControllerType,
  GroupControllerServiceCapability_RPC_Type as GroupType,
  NodeServiceCapability_RPC_Type as NodeType,
} from "@holdfast/shared/gen/csi/v1/csi";
import { capabilitiesAt } from "../capabilities.ts";
import type { Effects } from "./effect.ts";

/** The names of the mask are those of the spec's enums, so a name is its own value's key. */
const enumValue = <V extends number>(types: { readonly [name: string]: V }, name: string): V => {
  const value = types[name];
  if (value === undefined) throw new Error(`csi.proto has no capability ${name}`);
  return value;
};

export const capabilityListEffects: Effects<
  "ControllerGetCapabilities" | "NodeGetCapabilities" | "GroupControllerGetCapabilities"
> = {
  ControllerGetCapabilities: (_, { capabilities }) => ({
    capabilities: capabilitiesAt("controller", capabilities).map((name) => ({
      rpc: { type: enumValue(ControllerType, name) },
    })),
  }),
  NodeGetCapabilities: (_, { capabilities }) => ({
    capabilities: capabilitiesAt("node", capabilities).map((name) => ({ rpc: { type: enumValue(NodeType, name) } })),
  }),
  GroupControllerGetCapabilities: (_, { capabilities }) => ({
    capabilities: capabilitiesAt("group", capabilities).map((name) => ({ rpc: { type: enumValue(GroupType, name) } })),
  }),
};
