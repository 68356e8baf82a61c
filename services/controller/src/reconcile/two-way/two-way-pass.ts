/**
 * One comparison of a backend with the records, both ways.
 *
 * T1 Nothing follows from a listing that was not read to its end, nor from one row that is missing: what a complete listing lacks is
 * looked at on its own, or has to be missing from the next complete listing too. T2 A record that is being changed, or changed
 * after the listing began, is not judged. T3 Nothing is detached or deleted here: what nobody owns is written down, for a person.
 * T4 Memory is bounded by what one number a listed volume takes, and by `maxSuspects`.
 */
import { createKeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import { reattachNotWanted } from "../../domain/attachment/owed-change.ts";
import type { ListedVolume } from "../../domain/listing.ts";
import { judgeListed, settleMs } from "../../domain/repair/orphan.ts";
import { type Gathered, mark, maxSuspects, pairKey, type TwoWayDeps } from "./two-way-facts.ts";
import { type ListingStep, readListing } from "./two-way-listing.ts";
import { compareSnapshots } from "./two-way-snapshots.ts";
import { settleSuspects } from "./two-way-suspects.ts";

export interface PassProgress {
  readonly entries: number;
  readonly pages: number;
}

export interface PassOptions {
  /** Between two pages: spreads the work, and tells how far it is. */
  readonly afterPage?: (progress: PassProgress) => Promise<void>;
  readonly signal?: AbortSignal;
}

export type PassResult = PassProgress & {
  /** Why nothing, or not everything, could be told. */
  readonly gap?: { readonly reason: string; readonly message: string };
  readonly orphans: number;
  /** Attachments that are made again. */
  readonly redriven: number;
  /** What one complete listing lacks and nobody has proved yet. */
  readonly unproven: number;
};

export interface TwoWayPass {
  /** One at a time for each plugin. */
  run(plugin: string, options?: PassOptions): Promise<PassResult>;
  /** Somebody waits for the one that runs to end. */
  awaited(plugin: string): boolean;
}

const pageSize = 500;
const lookups = 32;
const maxPages = 20_000;
const maxRestarts = 3;

export const createTwoWayPass = (deps: TwoWayDeps): TwoWayPass => {
  const { records, listings, nodes, gate, clock, signal: life } = deps;
  const lanes = createKeyedLanes();
  const suspectedBefore = new Map<string, ReadonlySet<string>>();
  const redrives = new Map<string, Map<string, number>>();
  const redrivenOf = (plugin: string): Map<string, number> => {
    const known = redrives.get(plugin) ?? new Map<string, number>();
    redrives.set(plugin, known);
    return known;
  };

  const fresh = (plugin: string): Gathered => ({
    plugin,
    before: clock.now() - settleMs,
    seen: new Set(),
    missing: new Map(),
    unowned: new Map(),
    found: new Map(),
    pages: 0,
  });

  /** Ours for the plugin's ids of nodes. */
  const nodeNames = (plugin: string): ReadonlyMap<string, string> =>
    new Map(
      nodes
        .list()
        .flatMap(({ record }) =>
          record.plugins.flatMap((p) =>
            p.name === plugin && p.nodeId !== "" ? [[p.nodeId, record.name] as const] : [],
          ),
        ),
    );

  const takeEntry = async (all: Gathered, names: ReadonlyMap<string, string>, listed: ListedVolume): Promise<void> => {
    const owner = (await records.owner({ plugin: all.plugin, externalId: listed.externalId }))?.volume;
    all.seen.add(mark(listed.externalId));
    if (owner === undefined) {
      if (all.unowned.size < maxSuspects) all.unowned.set(listed.externalId, { ...listed, context: {} });
      return;
    }
    const verdict = judgeListed(listed, owner, { before: all.before, nodeNamed: (id) => names.get(id) });
    for (const finding of verdict.orphans) all.found.set(`${finding.externalId} ${finding.driverNodeId}`, finding);
    const ref = { namespace: owner.namespace, id: owner.id };
    const pairOf = (node: string) => ({ ref, uid: owner.uid, node });
    for (const node of verdict.missing)
      if (all.missing.size < maxSuspects) all.missing.set(pairKey(pairOf(node)), pairOf(node));
    // Rows may come twice: one that shows the pair is enough.
    for (const node of verdict.shown) {
      all.missing.delete(pairKey(pairOf(node)));
      redrivenOf(all.plugin).delete(pairKey(pairOf(node)));
    }
    for (const node of verdict.back)
      await records.change(owner, (v, at) =>
        v.uid === owner.uid ? reattachNotWanted(v, node, at) : { volume: v, ended: [], notes: [] },
      );
  };

  const takePage = async (all: Gathered, entries: readonly ListedVolume[]): Promise<void> => {
    const names = nodeNames(all.plugin);
    for (let at = 0; at < entries.length; at += lookups)
      await Promise.all(entries.slice(at, at + lookups).map((listed) => takeEntry(all, names, listed)));
    all.pages += 1;
  };

  /** Everything that the plugin lists, or why that could not be read. */
  const gather = async (
    plugin: string,
    { afterPage }: PassOptions,
    signal: AbortSignal,
  ): Promise<{ readonly all: Gathered; readonly gap?: NonNullable<PassResult["gap"]> }> => {
    let all = fresh(plugin);
    const steps: AsyncIterable<ListingStep<ListedVolume>> = readListing({
      ask: (page) => listings.volumes(plugin, page, signal),
      pageSize,
      maxPages,
      maxRestarts,
    });
    for await (const step of steps) {
      signal.throwIfAborted();
      if (step.kind === "broken") return { all, gap: step.failure };
      if (step.kind === "anew") all = fresh(plugin);
      if (step.kind === "page") {
        await takePage(all, step.entries);
        await afterPage?.({ entries: all.seen.size, pages: all.pages });
      }
    }
    return { all };
  };

  const nothing = (reason: string, message: string): PassResult => ({
    entries: 0,
    pages: 0,
    orphans: 0,
    redriven: 0,
    unproven: 0,
    gap: { reason, message },
  });

  const snapshotsSuspected = new Map<string, ReadonlySet<string>>();

  /** Volumes and snapshots are two lists: what one cannot tell does not spoil the other. */
  const both = async (plugin: string, options: PassOptions): Promise<PassResult> => {
    const volumes = await pass(plugin, options);
    const can = listings.can(plugin);
    if (!gate.state().open || !can.ready || can.snapshots !== "yes") return volumes;
    const signal = options.signal === undefined ? life : AbortSignal.any([life, options.signal]);
    const before = snapshotsSuspected.get(plugin) ?? new Set<string>();
    const { suspects, orphans, gap } = await compareSnapshots(deps, plugin, before, signal);
    snapshotsSuspected.set(plugin, suspects);
    const unproven = [...suspects].filter((key) => !before.has(key)).length;
    return {
      ...volumes,
      ...(gap === undefined || volumes.gap !== undefined ? {} : { gap }),
      orphans: volumes.orphans + orphans,
      unproven: volumes.unproven + unproven,
    };
  };

  const pass = async (plugin: string, options: PassOptions): Promise<PassResult> => {
    const signal = options.signal === undefined ? life : AbortSignal.any([life, options.signal]);
    const can = listings.can(plugin);
    if (!gate.state().open) return nothing("STORE_UNVETTED", gate.state().reason);
    if (!can.ready) return nothing("PLUGIN_NOT_READY", can.reason);
    if (can.volumes !== "yes") return nothing("CAPABILITY_MISMATCH", `plugin ${plugin} cannot list its volumes`);
    const { all, gap } = await gather(plugin, options, signal);
    const progress = { entries: all.seen.size, pages: all.pages };
    if (gap !== undefined) {
      // What rows do show is shown all the same; only what they lack proves nothing (T1).
      for (const finding of all.found.values()) await deps.orphans.found(finding);
      return { ...progress, orphans: all.found.size, redriven: 0, unproven: 0, gap };
    }
    const redriven = redrivenOf(plugin);
    for (const key of redriven.keys()) if (!all.missing.has(key)) redriven.delete(key); // T4
    const settled = await settleSuspects(deps, all, {
      before: suspectedBefore.get(plugin) ?? new Set(),
      redriven,
      signal,
    });
    suspectedBefore.set(plugin, settled.suspects);
    return { ...progress, orphans: settled.orphans, redriven: settled.redriven, unproven: settled.suspects.size };
  };

  return {
    run: (plugin, options = {}) => lanes.run(plugin, options.signal ?? life, () => both(plugin, options)),
    awaited: (plugin) => lanes.waiting(plugin) > 0,
  };
};
