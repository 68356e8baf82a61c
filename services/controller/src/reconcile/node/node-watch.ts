import type { Clock } from "@holdfast/shared/async/clock";
import { createKeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import { createLimiter } from "@holdfast/shared/async/limiter";
import { isAbort } from "@holdfast/shared/async/signals";
import { publicationLost } from "../../domain/claim/claim-change.ts";
import { settled } from "../../domain/steps.ts";
import { volumeKey } from "../../domain/volume/volume.ts";
import type { Nodes, NodeView } from "../../ports.ts";
import { volumesOnNode } from "../../records/volume/volumes-on-node.ts";
import { type InventoryDeps, reconcileInventory } from "./inventory.ts";

export interface NodeWatchDeps extends InventoryDeps {
  readonly nodes: Nodes;
  readonly clock: Clock;
  readonly wake: (key: string, hurry?: boolean) => void;
}

export interface NodeWatch {
  /** The node registered, changed, came back or went silent. */
  changed(name: string): void;
  /** Its agent can be asked again: what could not be sent meanwhile is sent at once. */
  linked(name: string): void;
  /** It may hold what is over, whatever was compared before. */
  doubt(name: string): void;
  /** The store was vetted: what could not be compared before is compared now. */
  all(): void;
  idle(): Promise<void>;
}

const tries = 5;
const pauseMs = 2_000;
/** Nodes whose volumes are read at once: a start looks at thousands of them, and everybody else's reads stand behind. */
const readsAtOnce = 16;
const longestPauseMs = 30_000;

/** Which life of an agent an inventory belongs to. */
const lifeOf = ({ record }: NodeView): string =>
  [record.instance, record.bootId, record.journalUid, record.nodeEpoch].join("/");

/**
 * Follows nodes: wakes what waits for one, notices publications that a reboot or a lost journal took away, and compares inventories once
 * per life of an agent, at each stream that begins, and after each silence; again only as long as it has not answered, or still holds what is over. One node is
 * looked at by one task at a time.
 */
export const createNodeWatch = (deps: NodeWatchDeps): NodeWatch => {
  const { nodes, records, clock, log, signal, wake } = deps;
  const lanes = createKeyedLanes();
  const reads = createLimiter({ name: "nodes", limit: readsAtOnce, maxQueued: Number.POSITIVE_INFINITY });
  const compared = new Map<string, string>();
  /**
   * Nodes to compare although their agent lives on: they hold what is over and were told to let go, or were silent, so that a person may
   * have ended there meanwhile what they hold.
   */
  const unsure = new Set<string>();
  const silent = new Set<string>();
  /** Nodes whose streams here began since they were looked at: a gap may have been too short to be seen. */
  const reachable = new Set<string>();
  const running = new Set<Promise<void>>();
  /** Nodes that could not be looked at, and their next try. */
  const again = new Map<string, { readonly failures: number; readonly stop: () => void }>();

  /** A mount does not outlive its boot, nor a permit its journal: such claims are degraded and get the same permit again. */
  const wakeVolumes = async (view: NodeView): Promise<void> => {
    const { name, bootId, journalUid } = view.record;
    // What was tried in vain while its agent was away is tried again at once.
    const away = view.live === "suspect" || view.linked === false;
    const returned = compared.get(name) !== lifeOf(view) || (silent.has(name) && !away);
    const back = reachable.delete(name) || returned;
    if (away) silent.add(name);
    if (view.live === "suspect") unsure.add(name);
    for await (const { volume } of volumesOnNode(records, name)) {
      const lost = Object.values(volume.claims).filter(
        ({ node, state, degradedSince, publication: p }) =>
          node === name &&
          state === "ACTIVE" &&
          degradedSince === undefined &&
          p !== undefined &&
          ((p.bootId ?? bootId) !== bootId || (p.journalUid ?? journalUid) !== journalUid),
      );
      for (const claim of lost) await records.change(volume, (v, at) => publicationLost(v, claim.uid, at));
      if (!settled(volume)) wake(volumeKey(volume), back);
    }
    if (!away) silent.delete(name);
  };

  /** True: it has to be compared again, although nothing may change that tells so. */
  const compare = async (name: string): Promise<boolean> => {
    for (let n = 1; n <= tries; n += 1) {
      const view = nodes.get(name);
      // Without its link there is nobody to ask; the link's begin is told. One that takes no work answers all the same.
      if (view === undefined || !(view.linked ?? view.live !== "suspect")) return false;
      if (compared.get(name) === lifeOf(view) && !unsure.has(name)) return false;
      try {
        const found = await reconcileInventory(deps, view);
        if (found === "shut") return false;
        compared.set(name, lifeOf(view));
        if (found === "owed") unsure.add(name);
        else unsure.delete(name);
        return found === "owed";
      } catch (error) {
        if (signal.aborted || isAbort(error)) return false;
        log.warn("the inventory of a node could not be compared with the records", { node: name, attempt: n, error });
        if (n < tries) await clock.sleep(pauseMs * n, signal);
      }
    }
    return true;
  };

  /**
   * A boot that nobody followed up would leave claims ACTIVE without a mount until the node changes again, and what is over mounted
   * for ever.
   */
  const lookAgain = (name: string): void => {
    const { failures } = again.get(name) ?? { failures: 0 };
    again.get(name)?.stop();
    const stop = clock.timer(Math.min(pauseMs * (failures + 1), longestPauseMs), () => changed(name));
    again.set(name, { failures: failures + 1, stop });
  };

  const look = async (name: string): Promise<void> => {
    const view = nodes.get(name);
    try {
      if (view !== undefined) {
        await reads.run(signal, () => wakeVolumes(view));
        if (await compare(name)) {
          lookAgain(name);
          return;
        }
      }
      again.get(name)?.stop();
      again.delete(name);
    } catch (error) {
      if (signal.aborted) return;
      log.warn("a change of a node was not followed up; it is tried again", { node: name, error });
      lookAgain(name);
    }
  };

  const changed = (name: string): void => {
    if (signal.aborted || lanes.waiting(name) > 0) return; // somebody is about to look anyway
    const task = lanes.run(name, signal, () => look(name)).catch(() => undefined);
    running.add(task);
    void task.finally(() => running.delete(task));
  };

  signal.addEventListener(
    "abort",
    () => {
      for (const { stop } of again.values()) stop();
    },
    { once: true },
  );

  return {
    changed,
    linked(name) {
      reachable.add(name);
      // The same process may hold what it held long ago: a snapshot of its machine was resumed, in a gap that nobody saw.
      unsure.add(name);
      changed(name);
    },
    doubt(name) {
      unsure.add(name);
      changed(name);
    },
    all() {
      for (const { record } of nodes.list()) {
        unsure.add(record.name);
        changed(record.name);
      }
    },
    async idle() {
      while (running.size > 0) await Promise.all(running);
    },
  };
};
