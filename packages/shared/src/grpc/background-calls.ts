/**
 * Calls that are made on a clock, by nobody's request: of these a trace would say every few seconds that all is well. They are
 * spans of a trace that there is already, and begin none; their caller makes one of a call that failed. All questions of CSI are here.
 */
const background: ReadonlySet<string> = new Set([
  // Open for as long as an agent is there.
  "/holdfast.internal.v1.ControllerLinkService/Serve",
  // Part of the call whose body it carries.
  "/holdfast.internal.v1.ControllerLinkService/Transfer",
  "/holdfast.internal.v1.AgentLinkService/Report",
  "/holdfast.internal.v1.AgentService/Stats",
  "/holdfast.internal.v1.AgentService/Inventory",
  // What changes anything is passed on within the span of its CSI call.
  "/holdfast.internal.v1.AgentService/Relay",
  "/holdfast.internal.v1.AgentService/RelayStream",
  "/csi.v1.Identity/GetPluginInfo",
  "/csi.v1.Identity/GetPluginCapabilities",
  "/csi.v1.Identity/Probe",
  "/csi.v1.Controller/ControllerGetCapabilities",
  "/csi.v1.Controller/ControllerGetVolume",
  "/csi.v1.Controller/ControllerGetVolumeHealth",
  "/csi.v1.Controller/ControllerListVolumeHealth",
  "/csi.v1.Controller/GetCapacity",
  "/csi.v1.Controller/GetSnapshot",
  "/csi.v1.Controller/ListSnapshots",
  "/csi.v1.Controller/ListVolumes",
  "/csi.v1.Controller/ValidateVolumeCapabilities",
  "/csi.v1.GroupController/GroupControllerGetCapabilities",
  "/csi.v1.GroupController/GetVolumeGroupSnapshot",
  "/csi.v1.Node/NodeGetCapabilities",
  "/csi.v1.Node/NodeGetInfo",
  "/csi.v1.Node/NodeGetStorageHealth",
  "/csi.v1.Node/NodeGetVolumeHealth",
  "/csi.v1.Node/NodeGetVolumeStats",
]);

export const isBackgroundCall = (path: string): boolean => background.has(path);
