/**
 * Every instance of a controller plugin that can be called, however it is reached, and the one that calls go to now.
 *
 * N1 One instance of a plugin is called at a time; another one only when that one is gone or failed. N2 An instance that answered
 * UNAVAILABLE, or does not answer, rests while another one can be called. N3 A call that was given to an instance (`via`) is made
 * at that one and at no other, rested or not. N4 Facts are those of the instance that is called.
 * N5 A call about storage goes only to an instance that reaches the storage (`domain/plugin/instance-reach.ts`).
 * N6 An instance that comes back and was given calls is told, also when new calls go to another one: its open calls wait for it.
 * N7 A call that an earlier life of the node may have goes to the life that is there now only if that one speaks for it.
 */

import { callPolicy } from "@holdfast/csi/call-policy";
import type { PluginFacts } from "@holdfast/csi/capabilities";
import type { CallOptions, CsiCaller } from "@holdfast/csi/csi-caller";
import type { CallReport } from "@holdfast/csi/csi-exchange";
import type { PluginDirectory } from "@holdfast/csi/plugin-directory";
import type { Tri } from "@holdfast/model/tri";
import type { Clock } from "@holdfast/shared/async/clock";
import { createEmitter } from "@holdfast/shared/async/emitter";
import type { Tracing } from "@holdfast/shared/tracing";
import { speaksFor } from "../domain/node/pending-life.ts";
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
  readonly onCall?: ((report: CallReport) => void) | undefined;
  readonly guide: Omit<CallGuide, "held">;
  /** What a code of a method means for this plugin. */
  readonly reading: (plugin: string, method: string, code: string) => string;
  /** The secrets of the plugin's controller calls stay with the controllers. */
  readonly besideControllerOnly: (plugin: string) => boolean;
  /** What the plugin's profile says of its instances. */
  readonly reach: (plugin: string) => PluginProfile["reach"];
}

interface Found extends Candidate, Pick<PluginInstance, "at" | "gate" | "gateEpoch"> {
  readonly place: InstancePlace | undefined;
  readonly facts: PluginFacts;
  /** Made for the one that is chosen only. */
  readonly caller: () => Pick<CsiCaller, "call" | "stream">;
}

/** Of nodes that cannot be called, in one sentence. */
const mostReasons = 3;

export const createPluginInstances = (options: PluginInstancesOptions): PluginInstances => {
  const { directory, halves, lines, clock, tracing, onCall, guide, reading, besideControllerOnly } = options;
  /** The node of the instance that was called last, if it is on one. */
  const lastNode = new Map<string, string>();
  const listeners = createEmitter<[plugin: string]>();
  const placesOf = createInstancePlaces(directory, halves, options.reach);
  const relayed = createRelayedCallers({ halves, lines, clock, tracing, onCall });

  const rests = ({ restsUntil }: Found): boolean => restsUntil > clock.monotonic(); // N2

  const localOnes = (plugin: string): readonly Found[] =>
    directory.list().flatMap((connection, rank) => {
      const { phase, facts } = connection.status();
      if (phase !== "ready" || facts?.name !== plugin) return [];
      const id = connection.socketPath;
      const at = { node: "", socket: id };
      const place = placesOf.beside(facts);
      const restsUntil = guide.restsUntil(plugin, id);
      return [{ id, at, place, local: true, rank, restsUntil, facts, caller: () => connection }];
    });

  const onNode = (plugin: string, half: HalfOnNode, rank: number): Found => {
    const { facts, node } = half;
    const id = nameOnNode(plugin, node.name);
    const [at, caller] = [{ node: node.name, socket: "" }, () => relayed.of(plugin, id, half)];
    const place = placesOf.on(plugin, node.name);
    return {
      id,
      at,
      gate: node.instance,
      gateEpoch: node.nodeEpoch,
      place,
      local: false,
      rank,
      restsUntil: guide.restsUntil(plugin, id),
      facts,
      caller,
    };
  };

  /** N3, N7 */
  const named = (plugin: string, via: string, gateEpoch?: number): Found | undefined => {
    const local = localOnes(plugin).find(({ id }) => id === via);
    if (local !== undefined || besideControllerOnly(plugin)) return local;
    const node = nodeOfName(via) ?? "";
    const half = halves.at(plugin, node);
    if (half?.usable !== true || nameOnNode(plugin, node) !== via) return undefined;
    return speaksFor(half.node, { nodeEpoch: gateEpoch }) ? onNode(plugin, half, 0) : undefined; // N7
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
    for (const half of halves.of(plugin)) if (half.usable && !rests(add(half)) && !all) break;
    const before = halves.at(plugin, lastNode.get(plugin) ?? "");
    if (before?.usable === true && !some.some(({ at }) => at.node === before.node.name)) add(before);
    return some;
  };

  const reachOf = (plugin: string, { place }: Found) =>
    place === undefined ? "ambiguous" : placesOf.of(plugin).reachOf(place);

  /** N5 */
  const within = (target: CallTarget, wanted?: Whereabouts): readonly Found[] => {
    const { plugin } = target;
    if (placesOf.of(plugin).equal) return [...localOnes(plugin), ...onNodes(plugin)];
    const where = wanted ?? whereIs(target);
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
  /** N6: by plugin, the instances that were called, and the facts that each had when changes were last looked at; none: it was away. */
  const given = new Map<string, Map<string, PluginFacts | undefined>>();
  const choose = (target: CallTarget): Found | undefined => {
    const { plugin, via, gateEpoch } = target;
    if (via === undefined) return chosenOf(plugin, within(target));
    const found = named(plugin, via, gateEpoch); // N3
    const known = given.get(plugin) ?? new Map<string, PluginFacts | undefined>();
    // That it is back is for `cameBack` to find: the others that wait for it have to be told.
    if (found === undefined || !known.has(via)) given.set(plugin, known.set(via, found?.facts));
    return found;
  };
  /** Facts last as long as a connection: other ones are of another process. */
  const cameBack = (plugin: string): boolean => {
    const known = given.get(plugin) ?? new Map<string, PluginFacts | undefined>();
    const back = [...known].filter(([via, before]) => {
      const now = named(plugin, via)?.facts;
      known.set(via, now);
      return now !== undefined && now !== before;
    });
    for (const [via] of back) guide.renewed(plugin, via);
    return back.length > 0;
  };

  const used = (plugin: string, node: string): void => {
    if (node === "") lastNode.delete(plugin);
    else lastNode.set(plugin, node);
  };

  const nameOf = ({ status }: ReturnType<PluginDirectory["list"]>[number]): string | undefined => status().facts?.name;

  /** What was told last of each plugin: most changes of most instances change nothing for those who call. */
  const told = new Map<string, { readonly id: string | undefined; readonly facts: unknown; readonly said: Tri }>();
  const tell = (plugin: string): void => {
    const first = choose({ plugin });
    const known = given.get(plugin) ?? new Map<string, PluginFacts | undefined>();
    if (first !== undefined && !known.has(first.id)) given.set(plugin, known.set(first.id, undefined));
    const back = cameBack(plugin);
    const { id, facts } = (back ? choose({ plugin }) : first) ?? { id: undefined, facts: absent(plugin).facts };
    const [before, said] = [told.get(plugin), halves.announced(plugin)];
    const same = before?.id === id && before?.facts === facts && before?.said === said;
    // Of instances with places of their own each one counts: volumes there wait for it.
    if (placesOf.of(plugin).equal && !back && same) return;
    told.set(plugin, { id, facts, said });
    listeners.tell(plugin);
  };
  halves.onChange((plugin) => {
    placesOf.changed(plugin);
    relayed.forget(plugin);
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
    const { id, at, gate, gateEpoch, facts } = chosen;
    const caller = chosen.caller();
    const own = reachOf(plugin, chosen) === "own" ? chosen.place?.segments : undefined;
    return {
      id,
      at,
      facts,
      ...(gate === undefined ? {} : { gate }),
      ...(gateEpoch === undefined ? {} : { gateEpoch }),
      rests: rests(chosen),
      ...(own === undefined ? {} : { own }),
      async call(method, request, call) {
        // A call that was given to this instance earlier chooses none for those that follow.
        if (target.via === undefined || lastNode.get(plugin) === undefined) used(plugin, at.node);
        const { deadlineMs, end } = guide.begin(plugin, id, method, subjectOf(call), callPolicy[method].deadlineMs);
        call.begun?.(method, call.deadlineMs ?? deadlineMs);
        const outcome = await caller.call(method, request, { deadlineMs, ...call });
        if (outcome.outcome === "done") end("OK", true);
        else end(outcome.failure.code, outcome.failure.sent);
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
