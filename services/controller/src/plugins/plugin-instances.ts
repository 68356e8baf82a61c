/**
 * Every instance of a controller plugin that can be called, however it is reached, and the one that calls go to now.
 *
 * N1 One instance of a plugin is called at a time; another one only when that one is gone or failed. N2 An instance that answered
 * UNAVAILABLE rests, longer each time in a row; any other answer ends that. N3 A call that was given to an instance (`via`) is made
 * at that one and at no other, rested or not. N4 Facts are those of the instance that is called.
 * N5 A call about storage goes only to an instance that reaches the storage (`domain/plugin/instance-reach.ts`).
 * N6 An instance that comes back and was given calls is told, also when new calls go to another one: its open calls wait for it.
 */

import { callPolicy } from "@holdfast/csi/call-policy";
import type { PluginFacts } from "@holdfast/csi/capabilities";
import type { CallOptions, CsiCaller } from "@holdfast/csi/csi-caller";
import type { CallReport } from "@holdfast/csi/csi-exchange";
import type { CallOutcome } from "@holdfast/csi/outcome";
import type { PluginDirectory } from "@holdfast/csi/plugin-directory";
import { backoffDelay } from "@holdfast/model/backoff";
import type { Tri } from "@holdfast/model/tri";
import type { Clock } from "@holdfast/shared/async/clock";
import { createEmitter } from "@holdfast/shared/async/emitter";
import type { Tracing } from "@holdfast/shared/tracing";
import type { CallGuide } from "../domain/plugin/call-guide.ts";
import { nameOnNode, nodeOfName } from "../domain/plugin/instance-name.ts";
import type { CallTarget } from "../domain/plugin/instance-reach.ts";
import { type InstancePlace, reaches, type Whereabouts, whereIs } from "../domain/plugin/instance-reach.ts";
import type { PluginProfile } from "../domain/plugin/plugin-profile.ts";
import type { Segments } from "../domain/volume/volume.ts";
import { type Candidate, chooseInstance } from "./choose-instance.ts";
import type { HalfOnNode, HalvesOnNodes } from "./halves-on-nodes.ts";
import { createInstancePlaces } from "./instance-places.ts";
import type { InstanceChoice, PluginInstance } from "./plugin-calls.ts";
import { readOutcome } from "./read-outcome.ts";
import type { RelayLines } from "./relay-transport.ts";
import { createRelayedCallers } from "./relayed-callers.ts";

/** N1 and N5 are in the choice. */
export interface PluginInstances extends InstanceChoice {
  /** What is known of a plugin that has no instance to call; facts are those it had when it was last seen. */
  absent(plugin: string): { readonly facts: PluginFacts | undefined; readonly why: string };
  /** The place in which a volume is to be made; undefined = none has to be chosen, or none can be. */
  homeFor(target: CallTarget): Segments | undefined;
  names(): readonly string[];
  /** Another instance is to be called, or the facts are others, or there is none any more, or one came back (N6). */
  onChange(listener: (plugin: string) => void): () => void;
  /** Its profile changed: perhaps another instance may be called now. */
  reconsider(plugin: string): void;
}

export interface PluginInstancesOptions {
  readonly directory: Pick<PluginDirectory, "list" | "onChange">;
  readonly halves: HalvesOnNodes;
  readonly lines: Pick<RelayLines, "transportTo" | "forget">;
  readonly clock: Clock;
  readonly tracing: Tracing;
  readonly random: () => number;
  readonly onCall?: ((report: CallReport) => void) | undefined;
  readonly guide: Pick<CallGuide, "begin">;
  /** What a code of a method means for this plugin. */
  readonly reading: (plugin: string, method: string, code: string) => string;
  /** The secrets of the plugin's controller calls stay with the controllers. */
  readonly besideControllerOnly: (plugin: string) => boolean;
  /** What the plugin's profile says of its instances. */
  readonly reach: (plugin: string) => PluginProfile["reach"];
}

interface Found extends Candidate, Pick<PluginInstance, "at" | "gate"> {
  readonly place: InstancePlace | undefined;
  readonly facts: PluginFacts;
  /** Made for the one that is chosen only. */
  readonly caller: () => Pick<CsiCaller, "call" | "stream">;
}

/** Of nodes that cannot be called, in one sentence. */
const mostReasons = 3;
/** At least half of a pause, so that the call that has just failed does not come back at once. */
const rests = { baseMs: 1_000, capMs: 30_000, least: 0.5 };

export const createPluginInstances = (options: PluginInstancesOptions): PluginInstances => {
  const { directory, halves, lines, clock, tracing, random, onCall, guide, reading, besideControllerOnly } = options;
  const resting = new Map<string, { readonly until: number; readonly failures: number }>();
  /** The node of the instance that was called last, if it is on one. */
  const lastNode = new Map<string, string>();
  const listeners = createEmitter<[plugin: string]>();
  const placesOf = createInstancePlaces(directory, halves, options.reach);
  const relayed = createRelayedCallers({ halves, lines, clock, tracing, onCall });

  const restOf = (id: string): number => resting.get(id)?.until ?? 0;
  const rested = (id: string): boolean => restOf(id) <= clock.monotonic();

  const localOnes = (plugin: string): readonly Found[] =>
    directory.list().flatMap((connection, rank) => {
      const { phase, facts } = connection.status();
      if (phase !== "ready" || facts?.name !== plugin) return [];
      const id = connection.socketPath;
      const at = { node: "", socket: id };
      const place = placesOf.beside(facts);
      return [{ id, at, place, local: true, rank, restsUntil: restOf(id), facts, caller: () => connection }];
    });

  const onNode = (plugin: string, half: HalfOnNode, rank: number): Found => {
    const { facts, node } = half;
    const id = nameOnNode(plugin, node.name);
    const [at, caller] = [{ node: node.name, socket: "" }, () => relayed.of(plugin, id, half)];
    const place = placesOf.on(plugin, node.name);
    return { id, at, gate: node.instance, place, local: false, rank, restsUntil: restOf(id), facts, caller };
  };

  /** N3 */
  const named = (plugin: string, via: string): Found | undefined => {
    const local = localOnes(plugin).find(({ id }) => id === via);
    if (local !== undefined || besideControllerOnly(plugin)) return local;
    const node = nodeOfName(via) ?? "";
    const half = halves.at(plugin, node);
    return half?.usable === true && nameOnNode(plugin, node) === via ? onNode(plugin, half, 0) : undefined;
  };

  /** As many as it takes to choose: up to the first that does not rest, and the one that was called last; or all. */
  const onNodes = (plugin: string, all = false): readonly Found[] => {
    const some: Found[] = [];
    if (besideControllerOnly(plugin)) return some;
    const add = (half: HalfOnNode): Found => {
      const found = onNode(plugin, half, some.length);
      some.push(found);
      return found;
    };
    for (const half of halves.of(plugin)) if (half.usable && rested(add(half).id) && !all) break;
    const before = halves.at(plugin, lastNode.get(plugin) ?? "");
    if (before?.usable === true && !some.some(({ at }) => at.node === before.node.name)) add(before);
    return some;
  };

  const reachOf = (plugin: string, { place }: Found) =>
    place === undefined ? "ambiguous" : placesOf.of(plugin).reachOf(place);

  /** N5 */
  const within = (target: CallTarget, where: Whereabouts = whereIs(target)): readonly Found[] => {
    const { plugin } = target;
    if (placesOf.of(plugin).equal) return [...localOnes(plugin), ...onNodes(plugin)];
    return [...localOnes(plugin), ...onNodes(plugin, true)].filter(
      (one) =>
        (target.only ?? one.id) === one.id &&
        one.place !== undefined &&
        reaches(one.place, reachOf(plugin, one), where),
    );
  };

  const chosenOf = (plugin: string, candidates: readonly Found[]): Found | undefined => {
    const before = lastNode.get(plugin);
    const last = before === undefined ? undefined : nameOnNode(plugin, before);
    return chooseInstance(candidates, last, clock.monotonic());
  };
  /** N6: by plugin, the instances that calls were given to, and whether each could be called when changes were last looked at. */
  const given = new Map<string, Map<string, boolean>>();
  const choose = ({ via, ...target }: CallTarget): Found | undefined => {
    if (via === undefined) return chosenOf(target.plugin, within(target));
    const found = named(target.plugin, via); // N3
    const known = given.get(target.plugin) ?? new Map<string, boolean>();
    // That it is back is for `cameBack` to find: the others that wait for it have to be told.
    if (found === undefined || !known.has(via)) given.set(target.plugin, known.set(via, found !== undefined));
    return found;
  };
  const cameBack = (plugin: string): boolean => {
    const known = given.get(plugin) ?? new Map<string, boolean>();
    const before = [...known];
    for (const via of known.keys()) known.set(via, named(plugin, via) !== undefined);
    return before.some(([via, there]) => !there && known.get(via) === true);
  };

  /** N2 */
  const noted = <T>(id: string, outcome: CallOutcome<T>): CallOutcome<T> => {
    if (outcome.outcome === "done" || outcome.failure.code !== "UNAVAILABLE") resting.delete(id);
    else {
      const failures = (resting.get(id)?.failures ?? 0) + 1;
      const pause = backoffDelay(failures - 1, rests, random());
      resting.set(id, { until: clock.monotonic() + pause, failures });
      // Sockets that are gone for good.
      for (const [other, { until }] of resting) if (until + rests.capMs < clock.monotonic()) resting.delete(other);
    }
    return outcome;
  };

  const used = (plugin: string, node: string): void => {
    if (node === "") lastNode.delete(plugin);
    else lastNode.set(plugin, node);
  };

  const nameOf = ({ status }: ReturnType<PluginDirectory["list"]>[number]): string | undefined => status().facts?.name;

  /** What was told last of each plugin: most changes of most instances change nothing for those who call. */
  const told = new Map<string, { readonly id: string | undefined; readonly facts: unknown; readonly said: Tri }>();
  const tell = (plugin: string): void => {
    const { id, facts } = choose({ plugin }) ?? { id: undefined, facts: absent(plugin).facts };
    const [before, said] = [told.get(plugin), halves.announced(plugin)];
    const same = before?.id === id && before?.facts === facts && before?.said === said;
    // Of instances with places of their own each one counts: volumes there wait for it.
    if (placesOf.of(plugin).equal && !cameBack(plugin) && same) return;
    told.set(plugin, { id, facts, said });
    listeners.tell(plugin);
  };
  halves.onChange((plugin) => {
    placesOf.changed(plugin);
    for (const id of relayed.forget(plugin)) resting.delete(id);
    tell(plugin);
  });
  directory.onChange((connection) => {
    const name = nameOf(connection);
    if (name !== undefined) tell(name);
  });

  const absent: PluginInstances["absent"] = (plugin) => {
    const seen = directory
      .list()
      .findLast((connection) => nameOf(connection) === plugin)
      ?.status();
    const posing = directory.list().flatMap(({ status }) => {
      const { impostorOf, reason = "" } = status();
      return impostorOf === plugin ? [reason] : [];
    });
    const remote = halves.of(plugin);
    const facts = seen?.facts ?? remote[0]?.facts;
    const local =
      seen === undefined ? [] : [`it is ${seen.phase}${seen.reason === undefined ? "" : `: ${seen.reason}`}`];
    const kept =
      remote.length > 0 && besideControllerOnly(plugin)
        ? ["its profile wants it beside the controller, and it runs on nodes only"]
        : remote.slice(0, mostReasons).map(({ why }) => why);
    const more = remote.length > mostReasons ? [`and so on, on ${remote.length} nodes`] : [];
    return { facts, why: [...local, ...posing, ...kept, ...more].join("; ") };
  };

  const instanceOf = (target: CallTarget, chosen: Found): PluginInstance => {
    const { plugin } = target;
    const { id, at, gate, facts } = chosen;
    const caller = chosen.caller();
    const own = reachOf(plugin, chosen) === "own" ? chosen.place?.segments : undefined;
    return {
      id,
      at,
      facts,
      ...(gate === undefined ? {} : { gate }),
      ...(own === undefined ? {} : { own }),
      async call(method, request, call) {
        // A call that was given to this instance earlier chooses none for those that follow.
        if (target.via === undefined || lastNode.get(plugin) === undefined) used(plugin, at.node);
        const { deadlineMs, end } = guide.begin(plugin, method, subjectOf(call), callPolicy[method].deadlineMs);
        const outcome = noted(id, await caller.call(method, request, { deadlineMs, ...call }));
        const { code, sent } = outcome.outcome === "done" ? { code: "OK", sent: true } : outcome.failure;
        end({ code, sent });
        return readOutcome(method, outcome, (of, answered) => reading(plugin, of, answered));
      },
      stream: caller.stream,
    };
  };

  const every: PluginInstances["every"] = (plugin) => {
    const { places, equal } = placesOf.of(plugin);
    const all = within({ plugin });
    const open = chosenOf(
      plugin,
      all.filter((one) => equal || reachOf(plugin, one) === "all"),
    );
    if (open !== undefined) return { here: [instanceOf({ plugin }, open)], missing: [] };
    const here = all.map((one) => instanceOf({ plugin }, one));
    const asked = new Set(all.map(({ place }) => place));
    const away = places().filter((place) => place.monolith && !asked.has(place));
    return { here, missing: away.map(({ node }) => (node === "" ? "beside the controller" : `node ${node}`)) };
  };

  return {
    current(target) {
      const chosen = choose(target);
      return chosen === undefined ? undefined : instanceOf(target, chosen);
    },
    absent,
    outOfReach: placesOf.outOfReach,
    every,
    homeFor: (target) => {
      const usable = within(target, { kind: "anywhere" }).flatMap(({ place }) => place ?? []);
      return placesOf.homeFor(target, usable);
    },
    names: () => [...new Set([...directory.list().flatMap((one) => nameOf(one) ?? []), ...halves.names()])],
    reconsider: tell,
    onChange: listeners.on,
  };
};

const subjectOf = ({ subject }: CallOptions): string => `${subject?.namespace ?? ""}/${subject?.volume ?? ""}`;
