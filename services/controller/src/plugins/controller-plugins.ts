/**
 * The controller plugins by name, wherever they run: what is known of each, and one file for each family of calls. What a call
 * proves comes back as an outcome.
 */
import { type Clock, systemClock } from "@holdfast/shared/async/clock";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Tri } from "../domain/node.ts";
import { defaultProfile } from "../domain/plugin-profile.ts";
import type { VolumeRecord, VolumeRef } from "../domain/volume.ts";
import type { BackendListings, CallGuide, ControllerPluginFacts, ControllerPlugins, PluginProfiles } from "../ports.ts";
import type { Secrets } from "../secrets/secrets.ts";
import { createAttachCalls } from "./attach-calls.ts";
import { createCapacityCalls } from "./capacity-calls.ts";
import { createChangeCalls } from "./change-calls.ts";
import { createListingCalls } from "./listing-calls.ts";
import { createPluginCalls } from "./plugin-calls.ts";
import type { PluginInstances } from "./plugin-instances.ts";
import { createRefusedCredentials } from "./refused-credentials.ts";
import { createRegisterCalls } from "./register-calls.ts";
import { createVolumeCalls } from "./volume-calls.ts";

export interface ControllerPluginsOptions {
  readonly instances: PluginInstances;
  readonly guide: Pick<CallGuide, "held">;
  readonly secrets: Secrets;
  readonly log: Logger;
  /** The volume that another one is to be made from. */
  readonly sourceOf: (ref: VolumeRef) => Promise<Pick<VolumeRecord, "externalId"> | undefined>;
  /** The volume whose record stands for the storage, if any does. */
  readonly ownerOf: (storage: {
    readonly plugin: string;
    readonly externalId: string;
  }) => Promise<VolumeRef | undefined>;
  /** What node instances announce of a plugin's CONTROLLER_SERVICE: "no" from them means that there is nothing to wait for. */
  readonly announcedByNodes: (plugin: string) => Tri;
  readonly clock?: Pick<Clock, "now">;
  readonly profiles?: Pick<PluginProfiles, "of">;
}

export const createControllerPlugins = (
  options: ControllerPluginsOptions,
): ControllerPlugins & { readonly listings: BackendListings } => {
  const { instances, guide, secrets, log, sourceOf, ownerOf, announcedByNodes, clock = systemClock } = options;

  const facts = (plugin: string): ControllerPluginFacts => {
    const current = instances.current(plugin)?.facts;
    const absent = current === undefined ? instances.absent(plugin) : { facts: current, why: "" };
    const known = absent.facts;
    if (known === undefined) return unseen(plugin, announcedByNodes(plugin));
    const callsHeld = current === undefined ? undefined : guide.held(plugin);
    return {
      ready: current !== undefined,
      reason: current === undefined ? `no controller half of plugin ${plugin} can be called: ${absent.why}` : "",
      version: known.version,
      controllerService: known.plugin.CONTROLLER_SERVICE,
      createsVolumes: known.controller.CREATE_DELETE_VOLUME,
      attaches: known.controller.PUBLISH_UNPUBLISH_VOLUME,
      publishesReadOnly: known.controller.PUBLISH_READONLY,
      singleNodeMultiWriter: known.controller.SINGLE_NODE_MULTI_WRITER,
      listsPublishedNodes: known.controller.LIST_VOLUMES_PUBLISHED_NODES,
      ...(callsHeld === undefined ? {} : { callsHeld }),
      expandsVolumes: known.controller.EXPAND_VOLUME,
      expandsOnline: known.plugin.VOLUME_EXPANSION_ONLINE,
      expandsOffline: known.plugin.VOLUME_EXPANSION_OFFLINE,
      assumedExpansion: (options.profiles?.of(plugin) ?? defaultProfile).assumedExpansion,
      modifiesVolumes: known.controller.MODIFY_VOLUME,
      getsVolumes: known.controller.GET_VOLUME,
    };
  };

  const calls = createPluginCalls({
    instance: instances.current,
    another: instances.another,
    trouble: (plugin) => facts(plugin).reason,
    secrets,
    refused: createRefusedCredentials(clock),
  });

  return {
    facts,
    names: instances.names,
    onChange: instances.onChange,
    ...createVolumeCalls({ calls, secrets, log, sourceOf, ownerOf }),
    ...createRegisterCalls(calls),
    ...createCapacityCalls(calls),
    ...createAttachCalls(calls),
    listings: createListingCalls(calls, (plugin) => facts(plugin).reason),
    ...createChangeCalls(calls),
  };
};

const unseen = (plugin: string, controllerService: Tri): ControllerPluginFacts => {
  // A plugin whose node half says that it has no controller half needs none.
  const has: Tri = controllerService === "no" ? "no" : "unknown";
  return {
    ready: false,
    reason:
      has === "no"
        ? `plugin ${plugin} has no controller half`
        : `no instance of the controller half of plugin ${plugin} was seen yet; start it beside the controller or on a node`,
    version: "",
    controllerService: has,
    createsVolumes: has,
    attaches: has,
    publishesReadOnly: has,
    singleNodeMultiWriter: "unknown",
    listsPublishedNodes: has,
    expandsVolumes: has,
    expandsOnline: "unknown",
    expandsOffline: "unknown",
    assumedExpansion: defaultProfile.assumedExpansion,
    modifiesVolumes: has,
    getsVolumes: has,
  };
};
