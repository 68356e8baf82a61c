/**
 * Writes into the records of nodes what a controller knows of their links: doubts, their answers, and that a link is lost
 * (domain/node/link-state.ts). Every write is compared with the record that it was decided from.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { inTurns } from "@holdfast/shared/async/in-turns";
import type { KeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import type { Logger } from "@holdfast/shared/log/logger";
import { isMarked, withoutMarks } from "../domain/node/link-state.ts";
import type { NodeRecord } from "../domain/node/node.ts";
import type { LinkStep, NodeLinks } from "./node-links.ts";
import { type NodeChanges, ofKnown } from "./node-store.ts";

export interface LinkKeeper {
  /** The node's link is here: what stands in its record against that is removed. To be called in the node's lane. */
  contradict(node: string): Promise<void>;
  /** Rejects when aborted. */
  watch(signal: AbortSignal): Promise<never>;
}

export interface LinkKeeperDeps {
  readonly links: NodeLinks;
  readonly changes: NodeChanges;
  readonly recordOf: (node: string) => NodeRecord | undefined;
  readonly lanes: KeyedLanes;
  readonly tell: (node: string) => void;
  /** Called at each look, for what else depends on the time. */
  readonly look: () => void;
  readonly clock: Clock;
  readonly log: Logger;
  readonly graceMs: number;
  readonly controllerId: string;
}

/** When a rack goes away, the commits of claims do not wait behind the doubts about all of its nodes. */
const writesAtOnce = 16;
const named = 10;
/** In graces. */
const longestRest = 1 / 6;
const shortestRest = 1 / 60;

export const createLinkKeeper = (deps: LinkKeeperDeps): LinkKeeper => {
  const { links, changes, recordOf, lanes, tell, clock, log, graceMs, controllerId } = deps;
  /** Nodes whose record could not be written, told in the log once. */
  const failing = new Set<string>();

  const contradict = async (node: string): Promise<void> => {
    const known = recordOf(node);
    if (known === undefined || !links.has(known)) return;
    if (!isMarked(known) && known.admitted === undefined) return;
    if (known.admitted !== undefined)
      log.warn("the recorded life of a node speaks, so that the admission of another life does not count", {
        node,
        life: known.admitted,
      });
    await changes(
      node,
      ofKnown((record) => {
        if (!links.has(record)) return undefined;
        const { admitted: _objected, ...kept } = withoutMarks(record);
        return { ...kept, updatedAt: clock.now() };
      }),
    );
  };

  const marked: Readonly<Record<LinkStep["step"], (record: NodeRecord, now: number) => NodeRecord>> = {
    doubt: (record, now) => ({ ...record, linkDoubt: { by: controllerId, at: now }, updatedAt: now }),
    lose: (record, now) => ({ ...withoutMarks(record), linkLost: { at: now }, updatedAt: now }),
  };

  /** Decided again over the record as it is read: another controller may have been faster. */
  const take = ({ node, step }: LinkStep) =>
    changes(
      node,
      ofKnown((record) => (links.step(node) === step ? marked[step](record, clock.now()) : undefined)),
    );

  const pass = async (signal: AbortSignal): Promise<number> => {
    const { steps, next } = links.due();
    const owed = links.contradicted();
    const lost: string[] = [];
    const failed: { readonly node: string; readonly error: unknown }[] = [];
    const attempt = (node: string, act: () => Promise<void>): Promise<void> =>
      lanes.run(node, signal, act).then(
        () => void failing.delete(node),
        (error: unknown) => void failed.push({ node, error }),
      );
    await inTurns(owed, writesAtOnce, (node) =>
      attempt(node, async () => {
        await contradict(node);
        tell(node);
      }),
    );
    await inTurns(steps, writesAtOnce, (step) =>
      attempt(step.node, async () => {
        const { changed } = await take(step);
        if (!changed) return;
        if (step.step === "lose") lost.push(step.node);
        tell(step.node);
      }),
    );
    signal.throwIfAborted();
    if (lost.length > 0)
      log.warn("nodes are suspect: no controller has had their link for a grace; their claims stay", {
        count: lost.length,
        nodes: lost.slice(0, named),
      });
    const fresh = failed.filter(({ node }) => !failing.has(node));
    for (const { node } of failed) failing.add(node);
    if (fresh.length > 0)
      log.warn("what is known of the links of nodes could not be stored; it is tried again", {
        count: fresh.length,
        nodes: fresh.slice(0, named).map(({ node }) => node),
        error: fresh[0]?.error,
      });
    if (failed.length > 0) return longestRest * graceMs;
    return Math.min(Math.max(next - clock.monotonic(), shortestRest * graceMs), longestRest * graceMs);
  };

  return {
    contradict,
    async watch(signal) {
      for (;;) {
        signal.throwIfAborted();
        const rest = await pass(signal);
        deps.look();
        await clock.sleep(rest, signal);
      }
    },
  };
};
