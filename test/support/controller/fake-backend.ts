/** A storage backend with its plugin's controller half: stateful, polices its caller, answers as told. */

import type { Seat } from "@holdfast/controller/domain/open-call";
import type { Advice, Failure, Outcome } from "@holdfast/controller/domain/outcome";
import type { BackendCapacity, CapacityQuery } from "@holdfast/controller/domain/plugin/backend-capacity";
import type { ExpandedVolume } from "@holdfast/controller/domain/size/expand-answer";
import type { Attachment, VolumeRecord } from "@holdfast/controller/domain/volume/volume";
import type { CreatedVolume } from "@holdfast/controller/domain/volume/volume-change";
import type { ValidatedVolume } from "@holdfast/controller/domain/volume/volume-registration";
import type { BackendVolume } from "@holdfast/controller/domain/volume/volume-sample";
import type {
  CallContext,
  ControllerPluginFacts,
  ControllerPlugins,
  SnapshotPlugins,
} from "@holdfast/controller/ports";
import { accessRules } from "@holdfast/model/access";

export type BackendMethod =
  | "create"
  | "validate"
  | "capacity"
  | "delete"
  | "publish"
  | "unpublish"
  | "expand"
  | "modify";

/**
 * How one call goes: `lost` does the work and gives no certain answer, `dropped` does nothing and gives none either,
 * `refused` and the others answer with that advice and do nothing.
 */
export type BackendFault =
  | { readonly kind: "lost" }
  /** As it answers when it is asked too much, or when the node takes no more; done all the same, or not. */
  | { readonly kind: "full"; readonly done: boolean }
  | { readonly kind: "dropped" }
  | { readonly kind: "refused"; readonly advice: Advice; readonly code: string }
  | { readonly kind: "unknown"; readonly advice: Advice; readonly code: string; readonly nodeFull?: boolean }
  | { readonly kind: "held"; readonly until: Promise<void> }
  /** It lies at its gate: no answer comes, and the work is done when it arrives. `alone`: the gate sends none of the volume beside it. */
  | { readonly kind: "late"; readonly arrives: Promise<void>; readonly alone?: true };

export interface FakeBackend extends ControllerPlugins, SnapshotPlugins {
  /** Faults are used up one call at a time. */
  script(method: BackendMethod, ...faults: readonly BackendFault[]): void;
  /** Asked before the scripts; for random faults. */
  chance(pick: ((method: BackendMethod, via: string) => BackendFault | undefined) | undefined): void;
  readonly calls: readonly string[];
  /** What a correct caller never does. */
  readonly violations: readonly string[];
  /** External ids that exist. */
  volumes(): readonly string[];
  /** `externalId@nodeId` */
  attachments(): readonly string[];
  attach(externalId: string, nodeId: string): void;
  detach(externalId: string, nodeId: string): void;
  /** Storage that was there before, or that the next CreateVolume of this name answers with. */
  keep(name: string, externalId: string): void;
  /** Somebody removed it at the backend. */
  drop(externalId: string): void;
  setFacts(facts: Partial<ControllerPluginFacts>): void;
  /** The instances that can be called, the one that calls go to first. */
  setSeats(...seats: readonly Seat[]): void;
  /** What GetCapacity says of a place. */
  setRoom(room: ((topology: CapacityQuery["topology"]) => BackendCapacity) | undefined): void;
  /** It takes one node at a time, whatever the mode says. */
  setOneNode(only: boolean): void;
  /** A call whose order is below one that has left is refused, as several controllers need it; from one it is a violation. */
  refuseStale(): void;
  setAbsence(absent: "yes" | "no" | "unknown" | undefined): void;
  /** As the backend has it, by external id. */
  sizes(): Readonly<Record<string, number>>;
  parameters(externalId: string): Readonly<Record<string, string>>;
  /** Whether ControllerExpandVolume says that nodes have to follow. */
  setNodesFollow(follow: boolean): void;
  /** What ControllerGetVolume says; undefined = it cannot be asked. */
  setLook(look: ((externalId: string) => BackendVolume | undefined) | undefined): void;
}

export interface BackendDeps {
  readonly plugin: string;
  /** Other plugins that lead to it, with volumes of their own. */
  readonly others?: readonly string[] | undefined;
  /** Is the volume mounted there? Asked of the hosts, not of the caller's records. */
  readonly mounted: (externalId: string, nodeId: string) => boolean;
}

/** Codes that the way to a plugin makes up, and ABORTED: an earlier call is under way. */
const unanswered: ReadonlySet<string> = new Set(["ABORTED", "CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE"]);

const failure = (method: string, advice: Advice, code: string): Failure => ({
  reason: code,
  message: `${method} answered ${code}`,
  advice,
  method,
  code,
  ...(unanswered.has(code) ? {} : { call: "ended" as const }),
});

/** Snapshots have a world of their own: sim-world.ts. */
const withoutSnapshots: SnapshotPlugins = {
  snapshotFacts: () => ({
    ready: true,
    reason: "",
    snapshots: "no",
    lists: "no",
    clones: "yes",
    groups: "no",
    metadata: "no",
    places: "no",
    volumePlaces: "no",
  }),
  cut: async () => ({ kind: "refused", failure: failure("cut", "fail", "UNIMPLEMENTED") }),
  deleteCut: async () => ({ kind: "refused", failure: failure("deleteCut", "block", "UNIMPLEMENTED") }),
  listSnapshots: async () => ({ kind: "refused", failure: failure("list", "fail", "UNIMPLEMENTED") }),
  blocks: () => {
    throw new Error("this backend has no snapshots");
  },
};

/** The one instance of the plugin, unless others are set. */
const instance = "the plugin's socket";

export const createFakeBackend = ({ plugin, others = [], mounted }: BackendDeps): FakeBackend => {
  const byName = new Map<string, string>();
  const attached = new Map<string, Attachment>();
  const calls: string[] = [];
  const violations: string[] = [];
  const scripts = new Map<BackendMethod, BackendFault[]>();
  /** By subject, the highest order of a call that has left. */
  const newest = new Map<string, number>();
  const busy = new Set<string>();
  /** Calls that lie at a gate: by instance and volume. */
  const late = new Map<string, number>();
  const shut = new Set<string>();
  let seats: readonly Seat[] = [{ via: instance }];
  const listeners = new Set<(plugin: string) => void>();
  let pick: Parameters<FakeBackend["chance"]>[0];
  let oneNode = false;
  let refusesStale = false;
  let room: ((topology: CapacityQuery["topology"]) => BackendCapacity) | undefined;
  let absent: "yes" | "no" | "unknown" | undefined;
  let facts: ControllerPluginFacts = {
    ready: true,
    reason: "",
    version: "1.0.0",
    controllerService: "yes",
    createsVolumes: "yes",
    attaches: "yes",
    publishesReadOnly: "yes",
    singleNodeMultiWriter: "yes",
    listsPublishedNodes: "yes",
    expandsVolumes: "yes",
    expandsOnline: "yes",
    expandsOffline: "no",
    assumedExpansion: "offline",
    modifiesVolumes: "yes",
    getsVolumes: "no",
    tellsCondition: "no",
    tellsHealth: "no",
    listsHealth: "no",
  };
  const sizes = new Map<string, number>();
  const parameters = new Map<string, Readonly<Record<string, string>>>();
  let nodesFollow = true;
  let look: ((externalId: string) => BackendVolume | undefined) | undefined;

  const police = (wrong: boolean, what: string): void => {
    if (wrong) violations.push(what);
  };

  const call = async <T>(
    method: BackendMethod,
    subject: string,
    { signal, wanted, via = instance }: Pick<CallContext, "signal" | "wanted"> & { readonly via?: string | undefined },
    work: () => Outcome<T>,
    detail = "",
  ): Promise<Outcome<T>> => {
    signal.throwIfAborted();
    const leave = await wanted?.(via);
    if (wanted !== undefined && leave === undefined) {
      const message = "not wanted any more";
      return { kind: "unknown", failure: { reason: "ABORTED", message, advice: "again", call: "not-sent" } };
    }
    // A bar allows one call at each gate.
    const lane = `${via} ${subject.split("@")[0] ?? subject}`;
    const { sequence = 0 } = leave?.order ?? {};
    const stale = sequence > 0 && sequence < (newest.get(lane) ?? 0);
    if (stale && refusesStale) {
      const message = "a later call has left";
      return { kind: "unknown", failure: { reason: "STALE_ORDER", message, advice: "wait", call: "not-sent" } };
    }
    calls.push(`${method} ${subject}${detail}${via === instance ? "" : ` via ${via}`}`);
    police(stale, `an order below one that has left for ${lane}`);
    newest.set(lane, Math.max(sequence, newest.get(lane) ?? 0));
    police(busy.has(lane), `two calls at once for ${lane}`);
    busy.add(lane);
    leave?.begun?.(method, 60_000);
    try {
      if (shut.has(lane)) return { kind: "unknown", failure: failure(method, "again", "ABORTED") };
      const fault = scripts.get(method)?.shift() ?? pick?.(method, via);
      await Promise.resolve();
      if (fault?.kind === "held") await fault.until;
      if (fault === undefined || fault.kind === "held") return work();
      if (fault.kind === "dropped") return { kind: "unknown", failure: failure(method, "again", "UNAVAILABLE") };
      if (fault.kind === "late") {
        late.set(lane, (late.get(lane) ?? 0) + 1);
        if (fault.alone) shut.add(lane);
        void fault.arrives.then(() => {
          calls.push(`late ${method} ${subject}`);
          work();
          late.set(lane, (late.get(lane) ?? 1) - 1);
          shut.delete(lane);
        });
        return { kind: "unknown", failure: failure(method, "again", "DEADLINE_EXCEEDED") };
      }
      if (fault.kind === "lost") {
        work();
        return { kind: "unknown", failure: failure(method, "again", "DEADLINE_EXCEEDED") };
      }
      if (fault.kind === "full") {
        if (fault.done) work();
        const failed = failure(method, "again", "RESOURCE_EXHAUSTED");
        return { kind: "unknown", failure: method === "publish" ? { ...failed, nodeFull: true } : failed };
      }
      const full = fault.kind === "unknown" && fault.nodeFull === true ? { nodeFull: true } : {};
      return { kind: fault.kind, failure: { ...failure(method, fault.advice, fault.code), ...full } };
    } finally {
      busy.delete(lane);
    }
  };

  const seatOf = (via: string | undefined): Seat | undefined =>
    facts.ready ? seats.find((one) => (via ?? one.via) === one.via) : undefined;

  const refused = <T>(method: BackendMethod, advice: Advice, code: string): Outcome<T> => ({
    kind: "refused",
    failure: failure(method, advice, code),
  });

  const attachmentsOf = (externalId: string) => [...attached].filter(([key]) => key.startsWith(`${externalId}@`));

  return {
    facts: (name) =>
      [plugin, ...others].includes(name) ? facts : { ...facts, ready: false, reason: "unknown", attaches: "unknown" },
    names: () => [plugin, ...others],
    homeFor: () => undefined,
    seek: async ({ via }) =>
      seatOf(via) ?? { reason: "PLUGIN_NOT_READY", message: facts.reason, advice: "again", call: "not-sent" },
    instance: ({ via }) => seatOf(via),
    quiesce: async ({ externalId, name }, { op, via }, { sequence }) => {
      const lane = `${via} ${op === "create" ? name : externalId}`;
      const gone = seatOf(via) === undefined;
      calls.push(`quiesce ${lane}${gone ? ": away" : ""}`);
      if (gone) return { kind: "away", words: `"${via}" does not answer` };
      newest.set(lane, Math.max(sequence, newest.get(lane) ?? 0));
      const open = (late.get(lane) ?? 0) > 0 || busy.has(lane);
      return open ? { kind: "open", words: `a call of ${lane} is open` } : { kind: "idle" };
    },
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    createVolume: (volume: VolumeRecord, context: CallContext) =>
      call<CreatedVolume>("create", volume.name, { ...context, via: volume.intent?.via }, () => {
        const externalId = byName.get(volume.name) ?? `ext-${volume.name}`;
        byName.set(volume.name, externalId);
        const size = sizes.get(externalId) ?? volume.capacity.required;
        sizes.set(externalId, size);
        const value = {
          externalId,
          capacity: size,
          context: {},
          accessible: [],
          pluginVersion: "1.0.0",
        };
        return { kind: "done", value };
      }),
    validateVolume: (volume: VolumeRecord, context: CallContext) =>
      call<ValidatedVolume>("validate", volume.externalId, context, () => {
        if (![...byName.values()].includes(volume.externalId))
          return refused("validate", "fail", "EXTERNAL_VOLUME_NOT_FOUND");
        const publishedNodes = attachmentsOf(volume.externalId).map(([key]) => key.slice(key.indexOf("@") + 1));
        const value = { confirmed: true, pluginVersion: "1.0.0", capacity: 0, accessible: [], publishedNodes };
        return { kind: "done", value };
      }),
    getCapacity: ({ plugin: name, topology }, context) =>
      call<BackendCapacity>(
        "capacity",
        topology === undefined ? name : `${name} ${JSON.stringify(topology)}`,
        context,
        () => ({
          kind: "done",
          value: room?.(topology) ?? { available: 1_000_000, maximumVolume: 500_000, minimumVolume: 1 },
        }),
      ),
    deleteVolume: (volume: VolumeRecord, context: CallContext) =>
      call<void>("delete", volume.externalId, { ...context, via: volume.intent?.via }, () => {
        police(attachmentsOf(volume.externalId).length > 0, `deleted while attached: ${volume.externalId}`);
        for (const [name, id] of byName) if (id === volume.externalId) byName.delete(name);
        sizes.delete(volume.externalId);
        return { kind: "done", value: undefined };
      }),
    expandVolume: (volume, target, context) =>
      call<ExpandedVolume>(
        "expand",
        volume.externalId,
        { ...context, via: volume.intent?.via },
        () => {
          const size = sizes.get(volume.externalId);
          police(size === undefined, `expanded a volume that is not there: ${volume.externalId}`);
          police(
            facts.expandsOnline !== "yes" && attachmentsOf(volume.externalId).length > 0,
            `[C59] expanded in use: ${volume.externalId}`,
          );
          const grown = Math.max(size ?? 0, target.required);
          if (target.limit > 0 && grown > target.limit) return refused("expand", "fail", "OUT_OF_RANGE");
          sizes.set(volume.externalId, grown);
          return { kind: "done", value: { capacity: grown, nodesFollow } };
        },
        ` ${target.required}${target.limit === 0 ? "" : ` at most ${target.limit}`}`,
      ),
    modifyVolume: (volume, target, context) =>
      call<void>(
        "modify",
        volume.externalId,
        { ...context, via: volume.intent?.via },
        () => {
          parameters.set(volume.externalId, { ...parameters.get(volume.externalId), ...target });
          return { kind: "done", value: undefined };
        },
        ` ${JSON.stringify(target)}`,
      ),
    lookAt: async (volume) => look?.(volume.externalId),
    publish: (volume: VolumeRecord, attachment: Attachment, context: CallContext) =>
      call("publish", `${volume.externalId}@${attachment.nodeId}`, { ...context, via: volume.intent?.via }, () => {
        police(
          ![...byName.values()].includes(volume.externalId),
          `attach of a volume that is not there: ${volume.externalId}`,
        );
        const elsewhere = attachmentsOf(volume.externalId).filter(([key]) => !key.endsWith(`@${attachment.nodeId}`));
        if (elsewhere.length > 0 && (oneNode || !accessRules[attachment.accessMode].manyNodes))
          return refused("publish", "block", "FAILED_PRECONDITION");
        attached.set(`${volume.externalId}@${attachment.nodeId}`, attachment);
        return { kind: "done", value: { device: `/dev/${volume.externalId}` } };
      }),
    unpublish: (volume: VolumeRecord, attachment: Attachment, context: CallContext) =>
      call<void>(
        "unpublish",
        `${volume.externalId}@${attachment.nodeId}`,
        { ...context, via: volume.intent?.via },
        () => {
          const pair = `${volume.externalId}@${attachment.nodeId}`;
          police(mounted(volume.externalId, attachment.nodeId), `[I2] detached while mounted: ${pair}`);
          attached.delete(pair);
          return { kind: "done", value: undefined };
        },
      ),
    attachmentAbsent: async (volume, attachment) =>
      absent ?? (attached.has(`${volume.externalId}@${attachment.nodeId}`) ? "no" : "yes"),
    ...withoutSnapshots,
    script(method, ...faults) {
      scripts.set(method, [...(scripts.get(method) ?? []), ...faults]);
    },
    chance(next) {
      pick = next;
    },
    calls,
    violations,
    volumes: () => [...byName.values()],
    attachments: () => [...attached.keys()],
    attach(externalId, nodeId) {
      attached.set(`${externalId}@${nodeId}`, {} as Attachment);
    },
    detach(externalId, nodeId) {
      attached.delete(`${externalId}@${nodeId}`);
    },
    keep(name, externalId) {
      byName.set(name, externalId);
      sizes.set(externalId, sizes.get(externalId) ?? 1_000_000);
    },
    drop(externalId) {
      for (const [name, id] of byName) if (id === externalId) byName.delete(name);
    },
    setFacts(change) {
      facts = { ...facts, ...change };
      for (const listener of listeners) listener(plugin);
    },
    setSeats(...next) {
      seats = next;
      for (const listener of listeners) listener(plugin);
    },
    setRoom(next) {
      room = next;
    },
    setOneNode(only) {
      oneNode = only;
    },
    refuseStale() {
      refusesStale = true;
    },
    setAbsence(value) {
      absent = value;
    },
    sizes: () => Object.fromEntries(sizes),
    parameters: (externalId) => parameters.get(externalId) ?? {},
    setNodesFollow(value) {
      nodesFollow = value;
    },
    setLook(value) {
      look = value;
    },
  };
};
