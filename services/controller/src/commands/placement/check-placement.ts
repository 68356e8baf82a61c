import type { Tri } from "@holdfast/model/tri";
import { countedSlots } from "../../domain/attachment/attach-pool.ts";
import { slotKey } from "../../domain/attachment/slots.ts";
import { followed } from "../../domain/claim/grant.ts";
import {
  type ClassVerdict,
  judgeClass,
  type PlacementQuestion,
  placeOn,
  questionOf,
} from "../../domain/placement/placement.ts";
import { type AskedClaim, askOf, unusable, type VolumeAsk } from "../../domain/placement/placement-ask.ts";
import type { BackendCapacity } from "../../domain/plugin/backend-capacity.ts";
import { volumeKey } from "../../domain/volume/volume.ts";
import type { IndexedNode, NodeIndex } from "../../records/node-index.ts";
import type { CommandDeps } from "../command-deps.ts";
import { nodeNotFound } from "../errors.ts";
import type { KnownCapacity } from "./known-capacity.ts";
import type { CheckPlacement, CheckPlacementInput, NodePlacement } from "./placement-model.ts";
import { isReason, type TemplateVolumes } from "./template-volumes.ts";
import { validateCheckPlacement } from "./validate-placement.ts";

export interface CheckPlacementDeps extends Pick<CommandDeps, "records" | "plugins" | "gate"> {
  readonly secrets: Pick<CommandDeps["secrets"], "granted">;
  readonly templates: TemplateVolumes;
  readonly index: NodeIndex;
  readonly capacityOf: KnownCapacity;
}

/** In one page; where every node is a place of its own, a plugin is not asked for each of thousands. */
const maxPlacesAsked = 64;

/** How many nodes one page may look at before it is handed out short. */
const maxScanned = 1_000;

/** Where claims would be granted, from memory: the store is asked only for volumes and slots that nobody here knows yet. */
export const checkPlacementQuery = ({
  records,
  plugins,
  gate,
  secrets,
  templates,
  index,
  capacityOf,
}: CheckPlacementDeps): CheckPlacement => {
  const questionFor = async (input: CheckPlacementInput): Promise<PlacementQuestion> => {
    const asked: readonly AskedClaim[] = input.claims.map((spec) => ({
      ref: { namespace: input.namespace, id: spec.volume },
      alias: spec.alias === "" ? spec.volume : spec.alias,
      capability: spec.capability,
      readOnly: spec.readOnly,
    }));
    const refs = [...new Map(asked.map(({ ref }) => [volumeKey(ref), ref])).values()];
    const found = await records.recentMany(refs);
    const standing = new Map(refs.map((ref, i) => [volumeKey(ref), found[i]?.volume]));
    const brought = await templates(
      input.claims.flatMap(({ template }) => template ?? []),
      standing,
    );
    const volumes = new Map(
      [...standing].map(([key, volume]) => {
        const own = brought.get(key);
        return [key, own === undefined || isReason(own) ? volume : own];
      }),
    );
    const gone = new Set([input.workload, ...input.after]);
    const after = followed([...volumes.values()], input.after);
    const asks = asked.map((each) => {
      const own = brought.get(volumeKey(each.ref));
      if (own !== undefined && isReason(own)) return unusable(each, own.plugin, own);
      return askOf(each, volumes.get(volumeKey(each.ref)), input.workload, gone, after);
    });
    const { open, reason } = gate.state();
    return questionOf(asks, open ? undefined : `nothing is granted before the store is vetted: ${reason}`);
  };

  /** Slots that nobody counted since the start: once, for all of the page. */
  const countSlots = async (question: PlacementQuestion, nodes: readonly IndexedNode[]): Promise<void> => {
    const uncounted: string[] = [];
    for (const plugin of question.plugins)
      for (const { view } of nodes) {
        const { name } = view.record;
        const limit = records.attachLimit(plugin, name);
        if (limit.limit === Number.POSITIVE_INFINITY && limit.pool === undefined) continue;
        const counted = countedSlots(plugin, name, limit.pool);
        uncounted.push(...counted.filter((slots) => records.slots.used(slots) === undefined));
      }
    await records.slots.recount([...new Set(uncounted)]);
  };

  /** What there is room for, asked once for each place of this page. */
  const createRooms = (question: PlacementQuestion) => {
    const rooms = new Map<string, BackendCapacity | undefined>();
    const keyOf = (placementClass: string, ask: VolumeAsk): string => `${placementClass} ${ask.key}`;
    return {
      in: (placementClass: string, ask: VolumeAsk) => rooms.get(keyOf(placementClass, ask)),
      async learn(nodes: readonly IndexedNode[]): Promise<void> {
        const asked: Promise<void>[] = [];
        for (const ask of question.asks)
          for (const { placement, placementClass } of ask.unmade === undefined ? [] : nodes) {
            const topology = placement.halves.get(ask.plugin)?.topology;
            const key = keyOf(placementClass, ask);
            if (ask.unmade === undefined || topology === undefined || rooms.has(key)) continue;
            if (rooms.size >= maxPlacesAsked) break;
            rooms.set(key, undefined);
            const place = Object.keys(topology).length === 0 ? {} : { topology };
            asked.push(capacityOf({ ...ask.unmade.like, ...place }).then((room) => void rooms.set(key, room)));
          }
        await Promise.all(asked);
      },
    };
  };

  const judge = (question: PlacementQuestion, rooms: ReturnType<typeof createRooms>) => {
    const attaches = new Map<string, Tri>(question.plugins.map((plugin) => [plugin, plugins.facts(plugin).attaches]));
    const verdicts = new Map<string, ClassVerdict>();
    return ({ view, placement, placementClass }: IndexedNode): NodePlacement => {
      let verdict = verdicts.get(placementClass);
      if (verdict === undefined) {
        verdict = judgeClass(
          question,
          placement,
          (plugin) => attaches.get(plugin) ?? "unknown",
          (ask) => rooms.in(placementClass, ask),
        );
        verdicts.set(placementClass, verdict);
      }
      const { name, machineId, machinesBefore } = view.record;
      const slots = (plugin: string) => records.slots.state(slotKey(plugin, name), records.attachLimit(plugin, name));
      const pool = (plugin: string) => records.slots.pool(name, records.attachLimit(plugin, name).pool);
      return { ...placeOn(question, verdict, { name, machineId, machinesBefore, slots, pool }), placementClass };
    };
  };

  /** The next names, of those that are asked for. */
  const namesOf = ({ nodes }: CheckPlacementInput) => {
    if (nodes.length === 0) return index.namesAfter;
    const named = [...new Set(nodes)].sort();
    return (after: string, limit: number) => named.filter((name) => name > after).slice(0, limit);
  };

  return async (input, { size, after = "" }) => {
    validateCheckPlacement(input, secrets.granted);
    for (const name of input.nodes) if (index.get(name) === undefined) throw nodeNotFound(name);
    const question = await questionFor(input);
    const rooms = createRooms(question);
    const place = judge(question, rooms);
    const names = namesOf(input);
    const items: NodePlacement[] = [];
    let last = after;
    for (let scanned = 0; scanned < maxScanned; ) {
      const batch = names(last, size - items.length);
      const nodes = batch.flatMap((name) => index.get(name) ?? []);
      await Promise.all([countSlots(question, nodes), rooms.learn(nodes)]);
      for (const node of nodes) {
        const placement = place(node);
        if (!input.feasibleOnly || placement.reasons.length === 0) items.push(placement);
      }
      scanned += batch.length;
      last = batch.at(-1) ?? last;
      if (names(last, 1).length === 0) return { items, next: undefined };
      if (items.length >= size) break;
    }
    return { items, next: last };
  };
};
