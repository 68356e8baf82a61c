/** The instances of each plugin by their places, and which volumes each of them reaches. Worked out once for each change of them. */
import type { PluginFacts } from "@holdfast/csi/capabilities";
import type { PluginDirectory } from "@holdfast/csi/plugin-directory";
import type { CallTarget } from "../domain/plugin/instance-reach.ts";
import {
  homesFor,
  type InstancePlace,
  type Reach,
  reachAll,
  reachesOf,
  whereIs,
  whereText,
} from "../domain/plugin/instance-reach.ts";
import type { PluginProfile } from "../domain/plugin/plugin-profile.ts";
import type { Segments } from "../domain/volume/volume.ts";
import type { HalvesOnNodes } from "./halves-on-nodes.ts";
import type { OutOfReach } from "./plugin-calls.ts";

export interface PlacesOfPlugin {
  /** All that are known, also those that cannot be called. */
  places(): readonly InstancePlace[];
  /** Every instance reaches everything: the choice does not depend on the subject of a call. */
  readonly equal: boolean;
  readonly reachOf: (place: InstancePlace) => Reach;
}

/** Of hosts, in one sentence. */
const mostHosts = 3;

export interface InstancePlaces {
  of(plugin: string): PlacesOfPlugin;
  /** Of an instance beside the controller. */
  beside(facts: PluginFacts): InstancePlace;
  on(plugin: string, node: string): InstancePlace | undefined;
  /** Why no instance may take the call, whether or not others can be called; undefined = every one may. */
  outOfReach(target: CallTarget): OutOfReach | undefined;
  /** The place in which a volume is to be made, of those with an instance that can be called. */
  homeFor(target: CallTarget, usable: readonly InstancePlace[]): Segments | undefined;
  /** Places on nodes are others now. */
  changed(plugin: string): void;
}

interface Known extends PlacesOfPlugin {
  readonly local: readonly InstancePlace[];
  readonly told: PluginProfile["reach"];
}

const sameItems = <T>(a: readonly T[], b: readonly T[]): boolean =>
  a.length === b.length && a.every((item, i) => item === b[i]);

export const createInstancePlaces = (
  directory: Pick<PluginDirectory, "list">,
  halves: Pick<HalvesOnNodes, "places" | "placeAt" | "monoliths">,
  reach: (plugin: string) => PluginProfile["reach"],
): InstancePlaces => {
  const known = new Map<string, Known>();
  const besides = new WeakMap<PluginFacts, InstancePlace>();

  const beside = (facts: PluginFacts): InstancePlace => {
    const { nodeInfo } = facts;
    const place = besides.get(facts) ?? {
      node: "",
      nodeId: nodeInfo?.nodeId ?? "",
      monolith: nodeInfo !== undefined,
      segments: nodeInfo?.topology ?? {},
    };
    besides.set(facts, place);
    return place;
  };

  /** Not one place is looked at: a plugin may have one on each of ten thousand nodes, which come one by one. */
  const equals = (plugin: string, local: readonly InstancePlace[]): PlacesOfPlugin => ({
    places: () => [...local, ...halves.places(plugin)],
    equal: true,
    reachOf: () => "all",
  });
  const unequals = (plugin: string, local: readonly InstancePlace[], told: PluginProfile["reach"]): PlacesOfPlugin => {
    const places = [...local, ...halves.places(plugin)];
    const reaches = reachesOf(places, told);
    return {
      places: () => places,
      equal: [...reaches.values()].every((one) => one === "all"),
      // Every place that is asked for is among them.
      reachOf: (place) => reaches.get(place) ?? "ambiguous",
    };
  };

  const look = (plugin: string): PlacesOfPlugin => {
    const local = directory.list().flatMap((connection) => {
      const { facts } = connection.status();
      return facts?.name === plugin ? [beside(facts)] : [];
    });
    const [found, told] = [known.get(plugin), reach(plugin)];
    if (found !== undefined && found.told === told && sameItems(found.local, local)) return found;
    const monoliths = halves.monoliths(plugin) + local.filter(({ monolith }) => monolith).length;
    const made = reachAll(told, monoliths) ? equals(plugin, local) : unequals(plugin, local, told);
    known.set(plugin, { ...made, told, local });
    return made;
  };

  const outOfReach = (target: CallTarget): OutOfReach | undefined => {
    const { plugin } = target;
    const { places: known, equal, reachOf } = look(plugin);
    if (equal) return undefined;
    const places = known();
    const where = whereIs(target);
    const nameless = places.filter((place) => reachOf(place) === "ambiguous");
    if (nameless.length > 0 && !places.some((place) => reachOf(place) === "own")) {
      const hosts = nameless.slice(0, mostHosts).map(({ node }) => (node === "" ? "the controller's host" : node));
      return {
        reason: "PLUGIN_AMBIGUOUS",
        message: `controller and node service of plugin ${plugin} run together on ${hosts.join(", ")}${nameless.length > mostHosts ? ` and ${nameless.length - mostHosts} more` : ""}, and it reports no topology: nothing says which volumes an instance reaches. Let it report a topology; or, if every instance reaches every volume, say so by "reach: all" in its profile: holdfast plugin profile ${plugin} <file>`,
      };
    }
    if (where.kind === "unknown")
      return {
        reason: "PLACE_UNKNOWN",
        message: `nothing says which instance of plugin ${plugin} has it, and none is chosen by chance; start the plugin on every node that may have it, so that each can be asked`,
      };
    if (where.kind === "anywhere") return undefined;
    return {
      reason: "PLUGIN_NOT_READY",
      message: `no instance of plugin ${plugin} that reaches ${whereText(where, places) || "its place"} can be called; start the plugin there`,
    };
  };

  return {
    of: look,
    outOfReach,
    homeFor(target, usable) {
      const { equal, reachOf } = look(target.plugin);
      if (equal || usable.some((place) => reachOf(place) === "all")) return undefined;
      const [best] = homesFor(whereIs(target), usable);
      return best?.segments;
    },
    beside,
    on: halves.placeAt,
    changed: (plugin) => void known.delete(plugin),
  };
};
