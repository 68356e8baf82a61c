import type { Vetting } from "@holdfast/model/vetting";
import type { Clock } from "@holdfast/shared/async/clock";
import type { KeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import type { Logger } from "@holdfast/shared/log/logger";
import type { AgentGateway } from "../../agent-ports.ts";
import { barLifted, volumeOvertaken } from "../../domain/bar.ts";
import { callWaits } from "../../domain/call-waits.ts";
import { type Change, noChange } from "../../domain/change.ts";
import { doubted } from "../../domain/doubt.ts";
import type { Failed } from "../../domain/outcome.ts";
import type { Step } from "../../domain/steps.ts";
import { type Attachment, type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import type { ControllerPlugins, Nodes, StoreGate } from "../../ports.ts";
import type { LearnedLimits } from "../../records/attachment/learned-limits.ts";
import type { CommitEnd } from "../../records/commit-rounds.ts";
import type { GrantFactsOf } from "../../records/grant-facts.ts";
import type { VolumeRecords } from "../../records/volume/volume-records.ts";
import type { Failpoint } from "../failpoints.ts";
import type { Owed } from "../owed/owed-call.ts";
import type { CallSlots } from "../plugin/call-slots.ts";
import type { CallRights } from "../plugin/call-turn.ts";
import type { LateAttaches } from "./late-attaches.ts";
import type { LedPermits, LedReleases } from "./led-permits.ts";

/** What steps work with. */
export interface StepDeps {
  readonly records: VolumeRecords;
  readonly learned: Pick<LearnedLimits, "learn" | "forget">;
  readonly plugins: ControllerPlugins;
  readonly agents: AgentGateway;
  readonly nodes: Nodes;
  readonly gate: StoreGate;
  readonly factsOf: GrantFactsOf;
  readonly clock: Clock;
  readonly slots: CallSlots;
  readonly failpoint: Failpoint;
  /** Which calls are this controller's to make. */
  readonly rights: CallRights;
  /** Looks at the volume again after a while, if nothing wakes it before. */
  readonly wakeLater: (ms: number, key: string) => void;
  /** Calls that left and whose answers are not stored yet: by volume, the id of the intent that they were made for. */
  readonly unstored: Map<string, string>;
  readonly lateAttaches: LateAttaches;
  /** Permits that left before their claims were stored as offered. */
  readonly led: LedPermits;
  /** The same of releases. */
  readonly ledReleases: LedReleases;
  /** The store's format knows claims whose permit may have left ahead. */
  readonly leads: () => boolean;
  /** Only of a step that began beside the commit of its record: resolves when that commit has ended. */
  readonly stored?: (() => Promise<CommitEnd>) | undefined;
  /** What was given to a connection in this turn of the event loop has left. */
  readonly sent: () => Promise<void>;
  /** By storage: a record that was given up while its storage was asked about may be followed by another one of the same storage. */
  readonly validating: KeyedLanes;
  readonly log: Logger;
  readonly taking: AbortSignal;
  readonly signal: AbortSignal;
}

/** One run of a step. */
export interface StepRun {
  /** The record from which the step was planned. */
  readonly volume: VolumeRecord;
  /** What the store was vetted as when that record was read. */
  readonly vetting: Vetting;
  readonly traceId: string | undefined;
}

export type StepNamed<D extends Step["do"]> = Extract<Step, { readonly do: D }>;

/** True = something was stored, so that the volume is planned anew; false = it has to wait for something to change. */
export type StepHandler<D extends Step["do"]> = (deps: StepDeps, step: StepNamed<D>, run: StepRun) => Promise<boolean>;

/** Volumes, as the engine of owed calls sees them. */
export const owedVolumes = (deps: StepDeps): Owed<VolumeRecord, Change> => {
  const { records, plugins } = deps;
  return {
    ...deps,
    seek: (volume) => plugins.seek(volume),
    records: {
      orders: records.orders,
      keyOf: volumeKey,
      known: async (volume) => (await records.recent(volume))?.volume,
      read: async (volume) => (await records.current(volume))?.volume,
      async change(volume, decide, options) {
        const { changed, volume: after, order } = await records.change(volume, decide, options);
        return { changed, record: after ?? undefined, order };
      },
      keep: noChange,
      waits: callWaits,
      overtaken: volumeOvertaken,
      lifted: barLifted,
      doubted,
    },
  };
};

/** Of a record that has it: the step was planned for it, and `stillRight` has seen it again. */
export const attachmentOf = ({ attachments }: VolumeRecord, node: string): Attachment => {
  const found = attachments[node];
  if (found === undefined) throw new Error(`the record has no attachment to node ${node}`);
  return found;
};

/** A plugin that cannot be called: nothing was sent, and the volume's one call is not held for it. */
export const away = (message: string): Failed => ({
  kind: "unknown",
  failure: { reason: "PLUGIN_NOT_READY", message, advice: "again", call: "not-sent" },
});
