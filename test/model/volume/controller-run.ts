/**
 * One run of a step of the controller, by the product's own code from the turn of the call to the stored answer.
 *
 * N1 A run ends at its first commit, where it waits for its call to leave, where its call has left, or where it has asked an agent: whatever
 * happens then happens to a state between two runs. What leaves beside a commit leaves whether that commit is made or not. N2 A commit is over the record that the store has, as after a conflict. N3 The clock
 * stands still: a wait that may be over is a run of its own, with `patient`.
 */
import { setImmediate as turn } from "node:timers/promises";
import { gateSubject } from "@holdfast/csi/gate-subject";
import type { UnaryMethod } from "@holdfast/csi/methods";
import type { CallOrder, CommitOrder } from "@holdfast/model/call-order";
import { createSilentLogger } from "@holdfast/shared/log/silent-logger";
import type { GateAnswer } from "../../../services/controller/src/domain/bar.ts";
import type { Change } from "../../../services/controller/src/domain/change.ts";
import type { PublishAnswer, ReleaseAnswer } from "../../../services/controller/src/domain/claim/permit.ts";
import type { Moment } from "../../../services/controller/src/domain/moment.ts";
import { type CallNews, givenTo, type Seat } from "../../../services/controller/src/domain/open-call.ts";
import type { Outcome } from "../../../services/controller/src/domain/outcome.ts";
import { defaultRetry } from "../../../services/controller/src/domain/retry.ts";
import type { Step } from "../../../services/controller/src/domain/steps.ts";
import { goodFacts, nodeRecord } from "../../../services/controller/src/domain/testing/record-fixtures.ts";
import type { Bar, VolumeRecord } from "../../../services/controller/src/domain/volume/volume.ts";
import { createAttachCalls } from "../../../services/controller/src/plugins/attach-calls.ts";
import { createChangeCalls } from "../../../services/controller/src/plugins/change-calls.ts";
import {
  type PluginCalls,
  type PluginInstance,
  refusedHere,
} from "../../../services/controller/src/plugins/plugin-calls.ts";
import { createRegisterCalls } from "../../../services/controller/src/plugins/register-calls.ts";
import { createVolumeCalls } from "../../../services/controller/src/plugins/volume-calls.ts";
import type { StepDeps } from "../../../services/controller/src/reconcile/steps/step-run.ts";
import { runStep } from "../../../services/controller/src/reconcile/steps/steps.ts";
import { keepsOpenCall } from "../../../services/controller/src/records/call-open-error.ts";
import { only } from "../search/only.ts";
import type { GateQuestion } from "./gate-rules.ts";
import {
  type AgentOrder,
  type AgentReply,
  type GateWord,
  gateWords,
  type ModelOrder,
  type Past,
  type Reply,
  replies,
  type SentCall,
} from "./model-types.ts";
import { goneRecord, type PlainRecord, plainRecord, wholeRecord } from "./plain-record.ts";
import { callOf, outcomeOf } from "./plugin-calls.ts";

/** The mark of a commit: above all that a state may have; the search gives it its rank. */
export const freshMark = "#29";

export interface RunInput {
  readonly issuer: string;
  readonly step: Step;
  /** From which the step was planned, or under which its call left. */
  readonly planned: PlainRecord;
  /** As the store has the volume now. */
  readonly stored: PlainRecord;
  /** As the store had it when the call left, of a run to an answer. */
  readonly seen?: PlainRecord;
  /** As this controller knows it when the call is answered; absent: as it was planned from. */
  readonly known?: PlainRecord;
  readonly order: ModelOrder | undefined;
  readonly unstored: string | undefined;
  /** A commit of this step that was made before. */
  readonly past?: Past | undefined;
  /** Where a call may go that has no gate; null: this controller knows of none. */
  readonly seat: Seat | null;
  /** The life of each gate, as it is; a gate without one cannot be reached. */
  readonly lives: ReadonlyMap<string, Seat>;
  readonly patient: boolean;
  /** The share that the record is of is this controller's; absent: it is. */
  readonly drives?: boolean;
  /** How far the run goes: to the call, beyond it, or to the answer. */
  readonly until: "call" | "away" | "gone" | Reply | AgentReply | GateWord;
}

export interface RunOutput {
  readonly stored?: PlainRecord;
  readonly order?: ModelOrder;
  readonly unstored?: string;
  /** The call is ready and waits to leave. */
  readonly waits?: true;
  readonly left?: SentCall;
  readonly asked?: AgentOrder;
  /** That gate is asked to let go of the volume. */
  readonly quiets?: GateQuestion;
  /** The call changes nothing: no gate compares it. */
  readonly reads?: true;
  readonly past?: Past;
  /** The seat was asked for, and whether a gate can be reached, and whose the share is. */
  readonly seated?: true;
  readonly reached?: true;
  readonly shared?: true;
}

/** At any time, by the controller half. */
const expands = { expandsVolumes: "yes", expandsOnline: "yes", expandsOffline: "yes", assumedExpansion: "online" };
const isGateWord = (word: string): word is GateWord => gateWords.some((one) => one === word);
const key = "ns/data";
const never = <T>(): Promise<T> => new Promise<T>(() => undefined);
const { signal } = new AbortController();
const log = createSilentLogger();

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

export const controllerRun = async (input: RunInput): Promise<RunOutput> => {
  const { issuer, step, seat, lives, patient, drives = true, until } = input;
  const planned = wholeRecord(input.planned);
  const stored = wholeRecord(input.stored);
  const known = input.known?.gone ? undefined : wholeRecord(input.known ?? input.planned);
  const seenPlain = input.seen ?? input.stored;
  const seen = seenPlain.gone ? undefined : wholeRecord(seenPlain);
  let { order } = input;
  const output: { -readonly [K in keyof RunOutput]: RunOutput[K] } = {};
  const unstored = new Map(input.unstored === undefined ? [] : [[key, input.unstored]]);
  const at: Moment = { now: 0, issuer, opId: freshMark, random: 0.5, retry: defaultRetry };
  const [, name = "", life = "0"] = /^(.*)\/(\d+)$/.exec(issuer) ?? [];
  const chosen = (): Seat | undefined => {
    output.seated = true;
    return seat ?? undefined;
  };
  const instance = ({ via }: { readonly via?: string | undefined }): Seat | undefined => {
    if (via === undefined) return chosen();
    output.reached = true;
    return lives.get(via);
  };

  const numbered = ({ sequence }: ModelOrder) => ({ gen: 1, sequence: Number(sequence.slice(1)) });
  let { past } = input;
  const commit = async (decide: (volume: VolumeRecord, at: Moment) => Change | undefined, settles?: CallNews) => {
    if (input.stored.gone) return { volume: null, rev: 0, ended: [], changed: false };
    if (past !== undefined) {
      const made = past;
      past = undefined;
      return { volume: wholeRecord(made.record), rev: 2, ended: [], changed: true, order: numbered(made.order) };
    }
    if (output.stored !== undefined) return await never<never>(); // N1
    const change = decide(stored, at); // N2
    if (change === undefined || change.volume === stored) return { volume: stored, rev: 1, ended: [], changed: false };
    keepsOpenCall(stored, change.volume, settles);
    if (change.volume === null) {
      order = undefined;
      output.stored = goneRecord;
      return { volume: null, rev: 2, ended: change.ended, changed: true };
    }
    const after = givenTo(change.volume, at, chosen);
    output.stored = plainRecord(after);
    const commitOrder = { sequence: freshMark, opId: freshMark };
    order = after.intent?.issuer === issuer ? { sequence: freshMark, opId: after.intent.opId } : undefined;
    output.past = { record: output.stored, order: commitOrder };
    return { volume: after, rev: 2, ended: change.ended, changed: true, order: numbered(commitOrder) };
  };
  type Decide = (volume: VolumeRecord, at: Moment) => Change;
  type DecideMany = (volumes: readonly VolumeRecord[], at: Moment) => readonly (Change | undefined)[];
  type Options = { readonly settles?: CallNews };

  const away: Outcome<never> = {
    kind: "unknown",
    failure: { reason: "AWAY", message: "", advice: "again", call: "not-sent" },
  };
  const instanceOf = (via: string, order: (CallOrder & { readonly gate?: string | undefined }) | undefined) =>
    only<PluginInstance>("instance", {
      facts: { version: "1", controller: {}, plugin: {} },
      own: undefined,
      async call(method: UnaryMethod, request: object) {
        if (order === undefined) output.reads = true;
        else {
          const { sequence, opId, gate } = order;
          const seated = { via, ...(gate === undefined ? {} : { gate }) };
          output.left = { ...callOf(method, request), ...seated, order: { sequence: `#${sequence}`, opId } };
        }
        return until in replies ? outcomeOf(method, request, until as Reply) : await never();
      },
    });
  const make: PluginCalls["run"] = async ({ via = "" }, _secret, send, wanted) => {
    if (until === "call") {
      output.waits = true;
      return await never();
    }
    const leave = until === "away" ? undefined : await wanted?.(via);
    if (leave !== undefined && until === "UNFIT") return refusedHere("");
    return leave === undefined ? away : await send(instanceOf(via, leave.order), {}, undefined);
  };
  const calls = only<PluginCalls>("calls", {
    run: make,
    change: ({ plugin, intent }, secret, { wanted }, send) => make({ plugin, via: intent?.via }, secret, send, wanted),
    find: async () => undefined,
  } satisfies Partial<PluginCalls>);

  const asked = async <A>(ask: AgentOrder, answers: Readonly<Record<string, A>>): Promise<A> => {
    output.asked = ask;
    return answers[until] ?? (await never<A>());
  };

  const records = {
    change: (_: unknown, decide: Decide, options: Options = {}) => commit(decide, options.settles),
    changeMany: async (_: unknown, decide: DecideMany, options: Options = {}) => [
      await commit((volume, moment) => decide([volume], moment)[0], options.settles),
    ],
    changeOwning: (_: unknown, __: unknown, decide: Decide, options: Options) => commit(decide, options.settles),
    recent: async () => {
      const volume = output.left === undefined ? planned : known;
      return volume && { volume, rev: 1 };
    },
    current: async () => seen && { volume: seen, rev: 1 },
    get: async () => seen && { volume: seen, rev: 1 },
    orders: {
      of: (_: string, opId: string) => (order?.opId === opId ? { ...numbered(order), opId } : undefined),
      forget: () => {
        order = undefined;
      },
    },
    attachLimit: () => ({ limit: Number.POSITIVE_INFINITY, learned: false }),
    slots: { leave: () => undefined, wait: () => undefined, refused: () => undefined },
  };
  const deps = only<StepDeps>("deps", {
    records: only("records", records),
    plugins: only("plugins", {
      facts: () => ({ ready: true, controllerService: "yes", modifiesVolumes: "yes", ...expands }),
      homeFor: () => undefined,
      ...createVolumeCalls({ calls, log, ownerOf: async () => undefined }),
      ...createAttachCalls(calls),
      ...createRegisterCalls(calls),
      ...createChangeCalls(calls),
      instance,
      quiesce: async (
        { name, externalId }: VolumeRecord,
        { op, via, gate }: Bar,
        { sequence }: CommitOrder,
      ): Promise<GateAnswer> => {
        const mark = `#${sequence}`;
        const subject = gateSubject("volume", op === "create" ? { name } : { id: externalId });
        const of = { ...(gate === undefined ? {} : { gate }), subject };
        output.quiets = { via, ...of, order: { sequence: mark, opId: mark } };
        return isGateWord(until) ? { kind: until, words: "" } : await never<GateAnswer>();
      },
      seek: async () => chosen() ?? { reason: "PLUGIN_NOT_READY", message: "", advice: "again", call: "not-sent" },
    }),
    agents: only<StepDeps["agents"]>("agents", {
      publish: ({ name: node }, permit) =>
        asked(
          { kind: "permit", node, claim: permit.claim.uid, epoch: permit.epoch, oldest: permit.oldestLiveEpoch },
          publishAnswers,
        ),
      release: ({ name: node }, { claimUid, epoch }) =>
        asked({ kind: "release", node, claim: claimUid, epoch, oldest: epoch }, releaseAnswers),
    } satisfies Partial<StepDeps["agents"]>),
    nodes: only("nodes", { get: (node: string) => ({ record: nodeRecord(node), live: "alive", rev: 1 }) }),
    gate: { state: () => ({ open: true, vetting: { gen: 1, uid: "vetting-1" }, reason: "" }) },
    factsOf: (_: string, node: string) => ({ ...goodFacts, nodeId: `id-${node}` }),
    clock: only("clock", { now: () => (patient ? 60_000 : 0) }),
    slots: only("slots", {
      run: (_: unknown, __: unknown, fn: () => unknown) => fn(),
      runIfWanted: async (_: unknown, wanted: () => Promise<boolean>, __: unknown, fn: () => unknown) =>
        (await wanted()) ? await fn() : undefined,
    }),
    learned: only("learned", { learn: async () => undefined, forget: async () => undefined }),
    validating: only("validating", { run: (_: unknown, __: unknown, fn: () => unknown) => fn() }),
    // The clock of a run stands still: what late-attaches.ts remembers of a record is what the record says.
    lateAttaches: {
      isOver: (_: string, attachment?: { readonly lateAttachUntil?: number }) =>
        (patient ? 60_000 : 0) >= (attachment?.lateAttachUntil ?? 0),
    },
    failpoint: async () => undefined,
    rights: {
      issuer,
      isFormerLife: (other: string) =>
        other.startsWith(`${name}/`) && Number(other.slice(name.length + 1)) < Number(life),
      isAway: () => patient,
      drives: () => {
        output.shared = true;
        return drives;
      },
      instance,
      bars: () => true,
    },
    wakeLater: () => undefined,
    led: new WeakMap(),
    ledReleases: new WeakMap(),
    leads: () => true,
    sent: async () => undefined,
    unstored,
    log,
    signal,
  });

  let failed: unknown;
  const running = runStep(deps, step, {
    volume: planned,
    vetting: { gen: 1, uid: "vetting-1" },
    traceId: undefined,
  }).catch((error: unknown) => {
    failed = error;
  });
  await Promise.race([running, turn()]);
  if (failed !== undefined && !(failed instanceof Error && "reason" in failed)) throw failed;
  const left = unstored.get(key);
  return { ...output, ...(order === undefined ? {} : { order }), ...(left === undefined ? {} : { unstored: left }) };
};
