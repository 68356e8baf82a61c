import {
  PluginCapability_VolumeExpansion_Type as ExpansionType,
  type PluginCapability,
  PluginCapability_Service_Type as ServiceType,
} from "@holdfast/shared/gen/csi/v1/csi";
import type { Capability } from "../capabilities.ts";
import { defaultName } from "../settings.ts";
import type { Effects } from "./effect.ts";

const service = (type: PluginCapability["service"] extends infer S ? NonNullable<S> : never): PluginCapability => ({
  service: type,
  volumeExpansion: undefined,
});

const expansion = (type: ExpansionType): PluginCapability => ({ service: undefined, volumeExpansion: { type } });

const pluginCapabilities: { readonly [C in Capability & `plugin.${string}`]: PluginCapability } = {
  "plugin.CONTROLLER_SERVICE": service({ type: ServiceType.CONTROLLER_SERVICE }),
  "plugin.VOLUME_ACCESSIBILITY_CONSTRAINTS": service({ type: ServiceType.VOLUME_ACCESSIBILITY_CONSTRAINTS }),
  "plugin.GROUP_CONTROLLER_SERVICE": service({ type: ServiceType.GROUP_CONTROLLER_SERVICE }),
  "plugin.SNAPSHOT_METADATA_SERVICE": service({ type: ServiceType.SNAPSHOT_METADATA_SERVICE }),
  "plugin.SNAPSHOT_ACCESSIBILITY_CONSTRAINTS": service({ type: ServiceType.SNAPSHOT_ACCESSIBILITY_CONSTRAINTS }),
  "plugin.EXPANSION_ONLINE": expansion(ExpansionType.ONLINE),
  "plugin.EXPANSION_OFFLINE": expansion(ExpansionType.OFFLINE),
};

export const identityEffects: Effects<"GetPluginInfo" | "GetPluginCapabilities" | "Probe"> = {
  GetPluginInfo: (_, { settings }) => ({
    name: settings.name ?? defaultName,
    vendorVersion: settings.vendorVersion ?? "1.0.0",
    manifest: {},
  }),
  GetPluginCapabilities: (_, { capabilities }) => ({
    capabilities: Object.entries(pluginCapabilities)
      .filter(([name]) => capabilities.has(name as Capability))
      .map(([, capability]) => capability),
  }),
  Probe: () => ({ ready: true }),
};
