/**
 * The controller plugins by name, wherever they run: what is known of each, and one file for each family of calls. What a call
 * proves comes back as an outcome.
 */
import { type Capability, type PluginFacts, standingOf } from "@holdfast/csi/capabilities";
import { createRefusedCredentials } from "@holdfast/csi/refused-credentials";
import type { Tri } from "@holdfast/model/tri";
import { type Clock, systemClock } from "@holdfast/shared/async/clock";
import type { Logger } from "@holdfast/shared/log/logger";
import type { CallGuide } from "../domain/plugin/call-guide.ts";
import { defaultProfile } from "../domain/plugin/plugin-profile.ts";
import type { Capabilities } from "../domain/plugin/plugin-record.ts";
import type { VolumeRef } from "../domain/volume/volume.ts";
import type {
  BackendHealth,
  BackendListings,
  ControllerPluginFacts,
  ControllerPlugins,
  PluginProfiles,
  SnapshotPlugins,
} from "../ports.ts";
import type { Secrets } from "../secrets/secrets.ts";
import { createAttachCalls } from "./attach-calls.ts";
import { createCapacityCalls } from "./capacity-calls.ts";
import { createChangeCalls } from "./change-calls.ts";
import { createHealthCalls } from "./health-calls.ts";
import { createListingCalls } from "./listing-calls.ts";
import { locateStorage } from "./locate-storage.ts";
import { createPluginCalls, type InstanceChoice, seatOf } from "./plugin-calls.ts";
import type { PluginInstances } from "./plugin-instances.ts";
import { createRegisterCalls } from "./register-calls.ts";
import { createSnapshotCalls } from "./snapshot-calls.ts";
import { createVolumeCalls } from "./volume-calls.ts";

export interface ControllerPluginsOptions {
  readonly instances: Omit<PluginInstances, "reconsider">;
  /** The holders of the sockets of all instances. */
  readonly gates: Pick<ControllerPlugins, "quiesce">;
  readonly guide: Pick<CallGuide, "held">;
  readonly secrets: Secrets;
  readonly log: Logger;
  /** The volume whose record stands for the storage, if any does. */
  readonly ownerOf: (storage: {
    readonly plugin: string;
    readonly externalId: string;
  }) => Promise<VolumeRef | undefined>;
  /** What node instances announce of a plugin's CONTROLLER_SERVICE: "no" from them means that there is nothing to wait for. */
  readonly announcedByNodes: (plugin: string) => Tri;
  /** What the version that runs told when its controller half was last seen. */
  readonly remembered?: (plugin: string) => Capabilities;
  readonly clock?: Pick<Clock, "monotonic">;
  readonly profiles?: Pick<PluginProfiles, "of" | "damage" | "names" | "lastSeen">;
}

export const createControllerPlugins = (
  options: ControllerPluginsOptions,
): ControllerPlugins & SnapshotPlugins & { readonly listings: BackendListings; readonly health: BackendHealth } => {
  const { instances, gates, guide, secrets, log, ownerOf, announcedByNodes, clock = systemClock } = options;

  const remembered: (plugin: string) => Capabilities = options.remembered ?? (() => ({}));

  /** Facts are told once a connection and asked for at every step: of those that leave nothing open it is worked out once. */
  const complete = new WeakMap<PluginFacts, Standings>();
  const standingsOf = (plugin: string, known: PluginFacts | undefined): Standings => {
    const found = known === undefined ? undefined : complete.get(known);
    if (found !== undefined) return found;
    const before = remembered(plugin);
    let open = false;
    const made = standings((capability) => {
      const told = known === undefined ? "unknown" : standingOf(known, capability);
      if (told !== "unknown") return told;
      open = true;
      // What this version told when it last ran; a failed question takes nothing away.
      return before[capability] ?? "unknown";
    });
    if (known !== undefined && !open) complete.set(known, made);
    return made;
  };

  /** Without what operators said of it nothing is asked of a plugin. */
  const damage = (plugin: string): string | undefined => options.profiles?.damage?.(plugin);
  const current: typeof instances.current = (subject) =>
    damage(subject.plugin) === undefined ? instances.current(subject) : undefined;
  const choice: InstanceChoice = {
    current,
    outOfReach: (target) => (damage(target.plugin) === undefined ? instances.outOfReach(target) : undefined),
    every: (plugin) => (damage(plugin) === undefined ? instances.every(plugin) : { here: [], missing: [] }),
  };

  const facts = (plugin: string): ControllerPluginFacts => {
    const now = current({ plugin });
    const absent = now === undefined ? instances.absent(plugin) : { facts: now.facts, why: "" };
    const known = absent.facts;
    // A plugin whose node half says that it has no controller half needs none.
    if (known === undefined && announcedByNodes(plugin) === "no") return headless(plugin);
    const callsHeld = now === undefined ? undefined : guide.held(plugin, now.id);
    const reach = now === undefined ? choice.outOfReach({ plugin }) : undefined;
    const ambiguous = reach?.reason === "PLUGIN_AMBIGUOUS";
    const away = (): string =>
      damage(plugin) ??
      reach?.message ??
      awayBecause(plugin, known === undefined ? undefined : absent.why, options.profiles?.lastSeen(plugin));
    return {
      // A call of an ambiguous plugin is not sent, and blocks with the reason instead of waiting in silence.
      ready: now !== undefined || ambiguous,
      reason: now === undefined ? away() : "",
      ...(ambiguous ? { ambiguous } : {}),
      version: known?.version ?? "",
      ...(callsHeld === undefined ? {} : { callsHeld }),
      assumedExpansion: (options.profiles?.of(plugin) ?? defaultProfile).assumedExpansion,
      ...standingsOf(plugin, known),
    };
  };

  const calls = createPluginCalls({
    instances: choice,
    locate: (target, until) => locateStorage(choice, target, until),
    trouble: (plugin) => facts(plugin).reason,
    secrets,
    refused: createRefusedCredentials(clock),
  });

  return {
    facts,
    // Where a volume is made is chosen, and stored, before its call is given to any instance.
    instance(target) {
      const found = target.via === undefined && instances.homeFor(target) !== undefined ? undefined : current(target);
      return found && seatOf(found);
    },
    seek: calls.seek,
    quiesce: gates.quiesce,
    // One whose instances are all gone is waited for, as one that is not ready.
    names: () => [...new Set([...instances.names(), ...(options.profiles?.names() ?? [])])],
    onChange: instances.onChange,
    homeFor: instances.homeFor,
    ...createVolumeCalls({ calls, log, ownerOf }),
    ...createRegisterCalls(calls),
    ...createCapacityCalls(calls),
    ...createAttachCalls(calls),
    listings: createListingCalls(calls, (plugin) => facts(plugin).reason),
    health: createHealthCalls(calls),
    ...createChangeCalls(calls),
    ...createSnapshotCalls({
      calls,
      secrets,
      standing: (plugin) => {
        const { ready, reason } = facts(plugin);
        return { ready, reason, facts: instances.current({ plugin })?.facts ?? instances.absent(plugin).facts };
      },
    }),
  };
};

const awayBecause = (plugin: string, why: string | undefined, lastSeen: string | undefined): string =>
  why === undefined
    ? lastSeen === undefined
      ? `no instance of the controller half of plugin ${plugin} was seen yet; start it beside the controller or on a node`
      : `no instance of the controller half of plugin ${plugin} runs; ${lastSeen}: start it again beside the controller or on a node`
    : `no controller half of plugin ${plugin} can be called: ${why}`;

type Standings = Omit<
  ControllerPluginFacts,
  "ready" | "reason" | "version" | "callsHeld" | "assumedExpansion" | "ambiguous"
>;

const standings = (standing: (capability: Capability) => Tri): Standings => ({
  controllerService: standing("plugin:CONTROLLER_SERVICE"),
  createsVolumes: standing("controller:CREATE_DELETE_VOLUME"),
  attaches: standing("controller:PUBLISH_UNPUBLISH_VOLUME"),
  publishesReadOnly: standing("controller:PUBLISH_READONLY"),
  singleNodeMultiWriter: standing("controller:SINGLE_NODE_MULTI_WRITER"),
  listsPublishedNodes: standing("controller:LIST_VOLUMES_PUBLISHED_NODES"),
  expandsVolumes: standing("controller:EXPAND_VOLUME"),
  expandsOnline: standing("plugin:VOLUME_EXPANSION_ONLINE"),
  expandsOffline: standing("plugin:VOLUME_EXPANSION_OFFLINE"),
  modifiesVolumes: standing("controller:MODIFY_VOLUME"),
  getsVolumes: standing("controller:GET_VOLUME"),
  tellsCondition: standing("controller:VOLUME_CONDITION"),
  tellsHealth: standing("controller:GET_VOLUME_HEALTH"),
  listsHealth: standing("controller:LIST_VOLUME_HEALTH"),
});

const headless = (plugin: string): ControllerPluginFacts => ({
  ready: false,
  reason: `plugin ${plugin} has no controller half`,
  version: "",
  assumedExpansion: defaultProfile.assumedExpansion,
  ...standings((capability) => (capability.startsWith("controller:") ? "no" : "unknown")),
  controllerService: "no",
  singleNodeMultiWriter: "unknown",
});
