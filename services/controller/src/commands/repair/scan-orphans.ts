/**
 * A scan that somebody waits for: everything that has no owner, and what could not be looked at. It compares as the sweep in the
 * background does; where one listing alone proves nothing, it is read twice.
 */
import { createNotifier } from "@holdfast/shared/async/notifier";
import type { AgentGateway } from "../../agent-ports.ts";
import { checkId, checkPlugin } from "../../domain/limits.ts";
import { mountOrphan, type Orphan, type OrphanKind } from "../../domain/repair/orphan.ts";
import type { ControllerPlugins, Nodes } from "../../ports.ts";
import type { OrphanRecords } from "../../records/orphan-records.ts";
import type { Caller } from "../model.ts";
import { refuse } from "../volume/validate-volume.ts";
import type { RemoveOrphan } from "./remove-orphan.ts";
import type { RepairOutcome } from "./repair-model.ts";
import { checkRepair } from "./validate-repair.ts";

export interface ScanOrphansInput {
  readonly nodes: readonly string[];
  readonly plugins: readonly string[];
  readonly kinds: readonly OrphanKind[];
  readonly clean: readonly OrphanKind[];
  readonly dryRun: boolean;
  readonly reason: string;
  readonly requestId: string;
}

export interface ScanGap {
  readonly node: string;
  readonly plugin: string;
  readonly reason: string;
  readonly message: string;
}

interface Progress {
  readonly entries: number;
  readonly pages: number;
}

export type ScanItem =
  | { readonly kind: "orphan"; readonly orphan: Orphan; readonly cleaned: boolean }
  | { readonly kind: "gap"; readonly gap: ScanGap }
  | ({ readonly kind: "progress"; readonly plugin: string } & Progress)
  | { readonly kind: "outcome"; readonly outcome: RepairOutcome };

export type ScanOrphans = (input: ScanOrphansInput, caller: Caller, signal: AbortSignal) => AsyncGenerator<ScanItem>;

export interface ScanOrphansDeps {
  readonly pass: {
    run(
      plugin: string,
      options: { readonly afterPage: (progress: Progress) => Promise<void>; readonly signal: AbortSignal },
    ): Promise<
      Progress & { readonly gap?: { readonly reason: string; readonly message: string }; readonly unproven: number }
    >;
  };
  readonly orphans: OrphanRecords;
  readonly plugins: Pick<ControllerPlugins, "names">;
  readonly nodes: Pick<Nodes, "list">;
  readonly agents: Pick<AgentGateway, "inventory">;
  readonly removeOrphan: RemoveOrphan;
}

const validate = ({ nodes, plugins, clean, reason, requestId }: ScanOrphansInput): void =>
  refuse([
    ...nodes.flatMap((node, i) => checkId(`nodes[${i}]`, node)),
    ...plugins.flatMap((plugin, i) => checkPlugin(`plugins[${i}]`, plugin)),
    ...clean.flatMap((kind, i) =>
      kind === "attachment"
        ? []
        : [{ field: `clean[${i}]`, description: "can be ORPHAN_KIND_ATTACHMENT alone; the others: RemoveOrphan" }],
    ),
    ...(clean.length > 0 ? checkRepair({ reason, requestId, confirm: "", dryRun: false }) : []),
  ]);

const whole = { effects: [], risks: [], auditId: "", confirmWith: "" } as const;

export const scanOrphansCommand = (deps: ScanOrphansDeps): ScanOrphans => {
  const { pass, orphans, plugins, nodes, agents, removeOrphan } = deps;

  /** One comparison, told as it goes on. */
  const compared = async function* (plugin: string, signal: AbortSignal): AsyncGenerator<ScanItem, number> {
    const news = createNotifier();
    let progress: Progress | undefined;
    let told: Progress | undefined;
    const afterPage = async (next: Progress): Promise<void> => {
      progress = next;
      news.notify();
    };
    let over = false;
    const run = pass.run(plugin, { afterPage, signal }).finally(() => {
      over = true;
      news.notify();
    });
    run.catch(() => undefined);
    for (let since = 0; !over; ) {
      since = await news.wait(since, signal);
      if (progress !== undefined && progress !== told) {
        told = progress;
        yield { kind: "progress", plugin, ...progress };
      }
    }
    const { gap, unproven } = await run;
    if (gap !== undefined) yield { kind: "gap", gap: { node: "", plugin, ...gap } };
    return gap === undefined ? unproven : 0;
  };

  /** What only the agent of a node can see. */
  const mountsOf = async function* (wanted: ReadonlySet<string>, signal: AbortSignal): AsyncGenerator<ScanItem> {
    const seen = new Set<string>();
    const heard = new Set<string>();
    for (const { record } of nodes.list()) {
      if (wanted.size > 0 && !wanted.has(record.name)) continue;
      try {
        const inventory = await agents.inventory(record, signal);
        heard.add(record.name);
        for (const path of inventory.orphans) {
          const orphan = await orphans.found(mountOrphan(record.name, path));
          seen.add(orphan.id);
          yield { kind: "orphan", orphan, cleaned: false };
        }
      } catch (error) {
        signal.throwIfAborted();
        const message = error instanceof Error ? error.message : String(error);
        yield { kind: "gap", gap: { node: record.name, plugin: "", reason: "NODE_NOT_READY", message } };
      }
    }
    for await (const orphan of orphans.of(""))
      if (heard.has(orphan.node) && !seen.has(orphan.id)) await orphans.gone(orphan.id);
  };

  return async function* (input, caller, signal) {
    validate(input);
    const nodesWanted = new Set(input.nodes);
    const wants = (kind: OrphanKind): boolean => input.kinds.length === 0 || input.kinds.includes(kind);
    const cleans = (orphan: Orphan): boolean => input.clean.includes(orphan.kind);
    const effects: string[] = [];

    /** Only what its own agent shows to be unused; the rest is for RemoveOrphan and a person's evidence. */
    const cleaned = async (orphan: Orphan): Promise<boolean> => {
      const asked = {
        orphanId: orphan.id,
        namespace: "default",
        secretRef: undefined,
        evidence: "the agent of its node shows nothing of it",
        reason: input.reason,
        requestId: input.requestId === "" ? "" : `${input.requestId}/${orphan.id}`,
      };
      try {
        const { outcome } = await removeOrphan({ ...asked, dryRun: true, confirm: "" }, caller);
        const shown = outcome.effects.some((effect) => effect.endsWith("shows nothing of it"));
        if (orphan.node === "" || !shown) return false;
        if (!input.dryRun) await removeOrphan({ ...asked, dryRun: false, confirm: outcome.confirmWith }, caller);
        effects.push(`orphan ${orphan.id}: ${outcome.effects.join("; ")}`);
        return true;
      } catch (error) {
        signal.throwIfAborted();
        effects.push(`orphan ${orphan.id} is left: ${error instanceof Error ? error.message : String(error)}`);
        return false;
      }
    };

    const atBackends = (["attachment", "storage", "record", "snapshot"] as const).some(wants);
    const names = input.plugins.length > 0 ? input.plugins : atBackends ? plugins.names() : [];
    for (const plugin of atBackends ? names : []) {
      signal.throwIfAborted();
      const unproven = yield* compared(plugin, signal);
      // What one complete listing lacks is proved by the next.
      if (unproven > 0) yield* compared(plugin, signal);
      for await (const orphan of orphans.of(plugin)) {
        if (!wants(orphan.kind) || (nodesWanted.size > 0 && !nodesWanted.has(orphan.node))) continue;
        yield { kind: "orphan", orphan, cleaned: cleans(orphan) && (await cleaned(orphan)) };
      }
    }
    if (wants("mount")) yield* mountsOf(nodesWanted, signal);
    yield { kind: "outcome", outcome: { ...whole, dryRun: input.dryRun, effects } };
  };
};
