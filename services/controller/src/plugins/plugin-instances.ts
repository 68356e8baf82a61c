/**
 * Every instance of a controller plugin that can be called, however it is reached, and the one that calls go to now.
 *
 * N1 One instance of a plugin is called at a time; another one only when that one is gone or failed. N2 An instance that answered
 * UNAVAILABLE rests, longer each time in a row; any other answer ends that. N3 A call is made at one instance and ends with its
 * answer: what is owed goes on at another one only after its outcome was stored. N4 Facts are those of the instance that is called.
 */

import { callPolicy } from "@holdfast/csi/call-policy";
import type { PluginFacts, Tri } from "@holdfast/csi/capabilities";
import { type CallOptions, type CsiCaller, createCsiCaller } from "@holdfast/csi/csi-caller";
import { type CallReport, createCsiExchange } from "@holdfast/csi/csi-exchange";
import type { CsiMethod } from "@holdfast/csi/methods";
import type { CallOutcome } from "@holdfast/csi/outcome";
import type { PluginDirectory } from "@holdfast/csi/plugin-directory";
import { backoffDelay } from "@holdfast/shared/async/backoff";
import type { Clock } from "@holdfast/shared/async/clock";
import type { Tracing } from "@holdfast/shared/tracing";
import type { CallGuide } from "../ports.ts";
import { type Candidate, chooseInstance } from "./choose-instance.ts";
import type { HalfOnNode, HalvesOnNodes } from "./halves-on-nodes.ts";
import type { PluginInstance } from "./plugin-calls.ts";
import { readOutcome } from "./read-outcome.ts";
import type { RelayLines } from "./relay-transport.ts";

export interface PluginInstances {
  /** N1: the one that a call goes to now. */
  current(plugin: string): PluginInstance | undefined;
  /** Another one than this could be called now. */
  another(plugin: string, id: string): boolean;
  /** What is known of a plugin that has no instance to call; facts are those it had when it was last seen. */
  absent(plugin: string): { readonly facts: PluginFacts | undefined; readonly why: string };
  names(): readonly string[];
  /** Another instance is to be called, or the facts are others, or there is none any more. */
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
}

interface Found extends Candidate, Pick<PluginInstance, "at"> {
  readonly facts: PluginFacts;
  /** Made for the one that is chosen only. */
  readonly caller: () => Pick<CsiCaller, "call" | "stream">;
}

/** A caller of an instance on a node, and the facts that it was made for. */
interface Relayed {
  readonly plugin: string;
  readonly node: string;
  readonly facts: PluginFacts;
  readonly caller: CsiCaller;
}

/** Of nodes that cannot be called, in one sentence. */
const mostReasons = 3;
const rests = { baseMs: 1_000, capMs: 30_000 };

export const createPluginInstances = (options: PluginInstancesOptions): PluginInstances => {
  const { directory, halves, lines, clock, tracing, random, onCall, guide, reading, besideControllerOnly } = options;
  const resting = new Map<string, { readonly until: number; readonly failures: number }>();
  /** The node of the instance that was called last, if it is on one. */
  const lastNode = new Map<string, string>();
  const listeners = new Set<(plugin: string) => void>();
  const relayed = new Map<string, Relayed>();

  const halfIdOf = (plugin: string, node: string): string => `node ${node}: ${plugin}`;
  const restOf = (id: string): number => resting.get(id)?.until ?? 0;
  const rested = (id: string): boolean => restOf(id) <= clock.monotonic();

  const localOnes = (plugin: string): readonly Found[] =>
    directory.list().flatMap((connection, rank) => {
      const { phase, facts } = connection.status();
      if (phase !== "ready" || facts?.name !== plugin) return [];
      const id = connection.socketPath;
      const at = { node: "", socket: id };
      return [{ id, at, local: true, rank, restsUntil: restOf(id), facts, caller: () => connection }];
    });

  /** A caller lasts as long as the facts it was made for: what the plugin denied is forgotten with them. */
  const callerOf = (plugin: string, id: string, half: HalfOnNode): CsiCaller => {
    const known = relayed.get(id);
    if (known?.facts === half.facts) return known.caller;
    const denied = new Set<CsiMethod>();
    const node = half.node.name;
    const caller = createCsiCaller({
      plugin: () => plugin,
      exchange: createCsiExchange({ plugin: () => plugin, tracing, clock, hop: "relay", onCall }),
      clock,
      random,
      access: () => {
        const now = halves.at(plugin, node);
        if (now?.usable !== true)
          return { closed: `plugin ${plugin}: ${now?.why ?? `node ${node} has no controller half of it any more`}` };
        return { facts: now.facts, transport: lines.transportTo(now.node, plugin), denied };
      },
      // Whether it is there again is seen by asking.
      whenReady: async (signal) => signal.throwIfAborted(),
      onUnimplemented: (method) => denied.add(method),
    });
    relayed.set(id, { plugin, node, facts: half.facts, caller });
    return caller;
  };

  /** As many as it takes to choose: up to the first that does not rest, and the one that was called last. */
  const onNodes = (plugin: string): readonly Found[] => {
    const some: Found[] = [];
    if (besideControllerOnly(plugin)) return some;
    const add = (half: HalfOnNode): Found => {
      const { facts, node } = half;
      const id = halfIdOf(plugin, node.name);
      const [at, caller] = [{ node: node.name, socket: "" }, () => callerOf(plugin, id, half)];
      const found = { id, at, local: false, rank: some.length, restsUntil: restOf(id), facts, caller };
      some.push(found);
      return found;
    };
    for (const half of halves.of(plugin)) if (half.usable && rested(add(half).id)) break;
    const before = halves.at(plugin, lastNode.get(plugin) ?? "");
    if (before?.usable === true && !some.some(({ at }) => at.node === before.node.name)) add(before);
    return some;
  };

  const choose = (plugin: string): Found | undefined => {
    const before = lastNode.get(plugin);
    const last = before === undefined ? undefined : halfIdOf(plugin, before);
    return chooseInstance([...localOnes(plugin), ...onNodes(plugin)], last, clock.monotonic());
  };

  /** N2 */
  const noted = <T>(id: string, outcome: CallOutcome<T>): CallOutcome<T> => {
    if (outcome.outcome === "done" || outcome.failure.code !== "UNAVAILABLE") resting.delete(id);
    else {
      const failures = (resting.get(id)?.failures ?? 0) + 1;
      // At least half of it, so that the call that has just failed does not come back here at once.
      const pause = backoffDelay(failures - 1, rests, () => 0.5 + 0.5 * random());
      resting.set(id, { until: clock.monotonic() + pause, failures });
      // Sockets that are gone for good.
      for (const [other, { until }] of resting) if (until + rests.capMs < clock.monotonic()) resting.delete(other);
    }
    return outcome;
  };

  const another = (plugin: string, id: string): boolean =>
    localOnes(plugin).some((one) => one.id !== id && rested(one.id)) ||
    (!besideControllerOnly(plugin) &&
      halves.of(plugin).some(({ usable, node }) => {
        const other = halfIdOf(plugin, node.name);
        return usable && other !== id && rested(other);
      }));

  /** What nodes have no more is forgotten, with the connection to a node that has nothing left to call. */
  const forget = (plugin: string): void => {
    for (const [id, one] of [...relayed]) {
      if (one.plugin !== plugin || halves.at(plugin, one.node) !== undefined) continue;
      relayed.delete(id);
      resting.delete(id);
      if (![...relayed.values()].some(({ node }) => node === one.node)) lines.forget(one.node);
    }
  };

  const nameOf = ({ status }: ReturnType<PluginDirectory["list"]>[number]): string | undefined => status().facts?.name;

  /** What was told last of each plugin: most changes of most instances change nothing for those who call. */
  const told = new Map<string, { readonly id: string | undefined; readonly facts: unknown; readonly said: Tri }>();
  const tell = (plugin: string): void => {
    const { id, facts } = choose(plugin) ?? { id: undefined, facts: absent(plugin).facts };
    const [before, said] = [told.get(plugin), halves.announced(plugin)];
    if (before?.id === id && before?.facts === facts && before?.said === said) return;
    told.set(plugin, { id, facts, said });
    for (const listener of [...listeners]) listener(plugin);
  };
  halves.onChange((plugin) => {
    forget(plugin);
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
    const remote = halves.of(plugin);
    const facts = seen?.facts ?? remote[0]?.facts;
    const local =
      seen === undefined ? [] : [`it is ${seen.phase}${seen.reason === undefined ? "" : `: ${seen.reason}`}`];
    const kept =
      remote.length > 0 && besideControllerOnly(plugin)
        ? ["its profile wants it beside the controller, and it runs on nodes only"]
        : remote.slice(0, mostReasons).map(({ why }) => why);
    const more = remote.length > mostReasons ? [`and so on, on ${remote.length} nodes`] : [];
    return { facts, why: [...local, ...kept, ...more].join("; ") };
  };

  return {
    current(plugin) {
      const chosen = choose(plugin);
      if (chosen === undefined) return undefined;
      const { id, at, facts } = chosen;
      const caller = chosen.caller();
      return {
        id,
        at,
        facts,
        async call(method, request, call) {
          if (at.node === "") lastNode.delete(plugin);
          else lastNode.set(plugin, at.node);
          const { deadlineMs, end } = guide.begin(plugin, method, subjectOf(call), callPolicy[method].deadlineMs);
          const outcome = noted(id, await caller.call(method, request, { deadlineMs, ...call }));
          const { code, sent } = outcome.outcome === "done" ? { code: "OK", sent: true } : outcome.failure;
          end({ code, sent, elsewhere: code === "UNAVAILABLE" && another(plugin, id) });
          return readOutcome(method, outcome, (of, answered) => reading(plugin, of, answered));
        },
        stream: caller.stream,
      };
    },
    another,
    absent,
    names: () => [...new Set([...directory.list().flatMap((one) => nameOf(one) ?? []), ...halves.names()])],
    reconsider: tell,
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
};

const subjectOf = ({ subject }: CallOptions): string => `${subject?.namespace ?? ""}/${subject?.volume ?? ""}`;
