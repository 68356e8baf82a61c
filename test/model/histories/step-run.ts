/**
 * A step of the volume, by the product's own code: a grant, or what an agent is asked and what its answer makes of the record. The plugin
 * takes no calls of controllers.
 */
import type { Vetting } from "@holdfast/model/vetting";
import type { Change } from "../../../services/controller/src/domain/change.ts";
import type { PublishAnswer, ReleaseAnswer } from "../../../services/controller/src/domain/claim/permit.ts";
import type { Moment } from "../../../services/controller/src/domain/moment.ts";
import { defaultRetry } from "../../../services/controller/src/domain/retry.ts";
import type { Step } from "../../../services/controller/src/domain/steps.ts";
import type { VolumeRecord } from "../../../services/controller/src/domain/volume/volume.ts";
import type { NodeView } from "../../../services/controller/src/ports.ts";
import type { StepDeps } from "../../../services/controller/src/reconcile/steps/step-run.ts";
import { runStep } from "../../../services/controller/src/reconcile/steps/steps.ts";
import { createGrantFacts } from "../../../services/controller/src/records/grant-facts.ts";
import { only } from "../search/only.ts";
import { type PlainRecord, plainRecord, wholeRecord } from "../volume/plain-record.ts";
import { settle } from "./awaited.ts";
import { silentLog } from "./gate-run.ts";
import type { Order, OrderReply, StoredVolume } from "./history-types.ts";

export interface StepInput {
  readonly step: Step;
  /** From which the step was planned. */
  readonly planned: PlainRecord;
  readonly stored: StoredVolume;
  readonly nodes: readonly NodeView[];
  /** The node of the step as it was seen when an agent was asked. */
  readonly before?: NodeView | undefined;
  readonly gate: { readonly open: boolean; readonly vetting: Vetting };
  readonly answer?: OrderReply | undefined;
}

export interface StepOutput {
  readonly stored?: StoredVolume;
  readonly order?: Omit<Order, "instance">;
  /** The node whose record the commit is tied to. */
  readonly grantedOn?: string;
}

export const momentNow: Moment = { now: 0, issuer: "c", opId: "op", random: 0.5, retry: defaultRetry };

const publishAnswers: Readonly<Record<string, PublishAnswer>> = {
  published: { kind: "published", publication: { hostPath: "", mountId: 0 } },
  "not-mounted": { kind: "not-mounted", reason: "PLUGIN_REFUSED", message: "" },
  refused: { kind: "refused", reason: "FLOOR", message: "" },
  uncertain: { kind: "uncertain", reason: "UNAVAILABLE", message: "" },
};
const releaseAnswers: Readonly<Record<string, ReleaseAnswer>> = {
  released: { kind: "released" },
  refused: { kind: "refused", reason: "FLOOR", message: "" },
  pending: { kind: "pending", blocked: false, reason: "UNAVAILABLE", message: "" },
};
const never = <T>(): Promise<T> => new Promise<T>(() => undefined);
const { signal } = new AbortController();

/** What a decision makes of the volume and of the tombstones beside it. */
export const afterChange = ({ ended }: StoredVolume, { volume, ended: over }: Change): StoredVolume => {
  if (volume === null) throw new Error("no decision of the model ends the volume");
  return {
    record: plainRecord(volume),
    ended: { ...ended, ...Object.fromEntries(over.map(({ uid, node }) => [uid, node])) },
  };
};

export const stepRun = async (input: StepInput): Promise<StepOutput> => {
  const { step, before, gate, answer } = input;
  const output: { -readonly [K in keyof StepOutput]: StepOutput[K] } = {};
  const planned = wholeRecord(input.planned);
  let stored = wholeRecord(input.stored.record);
  const commit = (change: Change | undefined) => {
    if (change === undefined || change.volume === stored) return { volume: stored, rev: 1, ended: [], changed: false };
    output.stored = afterChange(output.stored ?? input.stored, change);
    stored = wholeRecord(output.stored.record);
    return { volume: stored, rev: 2, ended: change.ended, changed: true };
  };
  const order = async <A>(
    kind: Order["kind"],
    name: string,
    { claim, epoch, oldest, forEpoch }: Pick<Order, "claim" | "epoch" | "oldest" | "forEpoch">,
    vetting: Vetting,
    answers: Readonly<Record<string, A>>,
  ): Promise<A> => {
    output.order = { kind, node: name, claim, epoch, oldest, forEpoch, vetting };
    return (answer === undefined ? undefined : answers[answer]) ?? (await never<A>());
  };
  let looked = 0;
  const now = new Map(input.nodes.map((view) => [view.record.name, view]));
  const nodes = {
    get: (name: string) => {
      looked += 1;
      return looked === 1 && before?.record.name === name ? before : now.get(name);
    },
    list: () => [],
    onChange: () => () => undefined,
  };
  const records = {
    change: async (_: unknown, decide: (v: VolumeRecord, at: Moment) => Change) => commit(decide(stored, momentNow)),
    changeMany: async (
      _: unknown,
      decide: (v: readonly VolumeRecord[], at: Moment) => readonly (Change | undefined)[],
      _options: unknown,
    ) => {
      const before = stored;
      const change = decide([stored], momentNow)[0];
      const claim = Object.values(change?.volume?.claims ?? {}).find(
        ({ uid, state }) => state !== "QUEUED" && before.claims[uid]?.state === "QUEUED",
      );
      if (claim !== undefined) output.grantedOn = claim.node;
      return [commit(change)];
    },
    attachLimit: () => ({ limit: Number.POSITIVE_INFINITY, learned: false, pool: undefined }),
    slots: { leave: () => undefined, wait: () => undefined, state: () => undefined, pool: () => undefined },
  };
  const plugins = only<StepDeps["plugins"]>("plugins", {
    facts: () => ({ ready: true, version: "1", attaches: "no", publishesReadOnly: "no", controller: {}, plugin: {} }),
  });
  const state = { ...gate, reason: "" };
  const deps = only<StepDeps>("deps", {
    records: only("records", records),
    plugins,
    nodes,
    gate: { state: () => state, onChange: () => () => undefined },
    factsOf: createGrantFacts({
      nodes: { ...nodes, get: (name: string) => now.get(name) },
      plugins,
      gate: { state: () => state, onChange: () => () => undefined },
      records: only("records", records),
    }),
    agents: only<StepDeps["agents"]>("agents", {
      publish: ({ name }, { claim, epoch, oldestLiveEpoch: oldest, nodeEpoch: forEpoch }, { vetting }) =>
        order("permit", name, { claim: claim.uid, epoch, oldest, forEpoch }, vetting, publishAnswers),
      release: ({ name }, { claimUid: claim, epoch, nodeEpoch: forEpoch }, { vetting }) =>
        order("release", name, { claim, epoch, oldest: epoch, forEpoch }, vetting, releaseAnswers),
    } satisfies Partial<StepDeps["agents"]>),
    clock: only("clock", { now: () => 0 }),
    failpoint: async () => undefined,
    led: new WeakMap(),
    ledReleases: new WeakMap(),
    log: silentLog,
    signal,
  });
  await settle(runStep(deps, step, { volume: planned, vetting: gate.vetting, traceId: undefined }));
  return output;
};
