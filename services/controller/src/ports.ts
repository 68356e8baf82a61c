import type { CommitOrder } from "@holdfast/model/call-order";
import type { VolumeHealthEntry } from "@holdfast/model/health";
import type { Tri } from "@holdfast/model/tri";
import type { Vetting } from "@holdfast/model/vetting";
import type { GateAnswer } from "./domain/bar.ts";
import type {
  ListedHealth,
  ListedSnapshot,
  ListedVolume,
  ListingPage,
  ListingRequest,
  ListingSkills,
} from "./domain/listing.ts";
import type { Dispute } from "./domain/node/dispute.ts";
import type { FencerAnswer, FencerAsk } from "./domain/node/fencer.ts";
import type { NodeRecord } from "./domain/node/node.ts";
import type { CallBar, Leave, Seat } from "./domain/open-call.ts";
import type { Failure, Outcome } from "./domain/outcome.ts";
import type { BackendCapacity, CapacityQuery } from "./domain/plugin/backend-capacity.ts";
import type { CallTarget } from "./domain/plugin/instance-reach.ts";
import type { PluginProfile } from "./domain/plugin/plugin-profile.ts";
import type { Capabilities } from "./domain/plugin/plugin-record.ts";
import type { PluginSighting } from "./domain/plugin/plugin-sighting.ts";
import type { AuditedAs } from "./domain/repair/audit.ts";
import type { ExpandedVolume } from "./domain/size/expand-answer.ts";
import type { SizeRange } from "./domain/size/expansion.ts";
import type { CutRecord } from "./domain/snapshot/snapshot.ts";
import type { CutAnswer } from "./domain/snapshot/snapshot-answer.ts";
import type { AskForBlocks, ListAtBackend, SnapshotFacts } from "./domain/snapshot/snapshot-types.ts";
import type {
  AggregateRef,
  Commit,
  CommitResult,
  DueEntry,
  IndexEntry,
  ListPage,
  ListQuery,
  StoredEvent,
  StoredRecord,
  StoreIdentity,
} from "./domain/store-types.ts";
import type { Attachment, Segments, VolumeRecord } from "./domain/volume/volume.ts";
import type { CreatedVolume } from "./domain/volume/volume-change.ts";
import type { ValidatedVolume } from "./domain/volume/volume-registration.ts";
import type { BackendVolume, FiguresWanted, VolumeSample } from "./domain/volume/volume-sample.ts";

/**
 * The shared memory of all controllers. It compares and keeps; it decides nothing.
 * Every method rejects with reason STORE_UNAVAILABLE when the outcome of a read is not known, and a commit whose answer
 * was lost is settled inside (same opId again) or rejects with STORE_OUTCOME_UNKNOWN: then read before deciding.
 */
export interface Store {
  readonly kind: "redis" | "sqlite";
  get(ref: AggregateRef): Promise<StoredRecord | undefined>;
  /** In the order asked; undefined where there is none. */
  getMany(refs: readonly AggregateRef[]): Promise<readonly (StoredRecord | undefined)[]>;
  list(query: ListQuery): Promise<ListPage>;
  /** How many records carry each entry, in the order asked; what has ended and was not tidied away yet may count. */
  count(entries: readonly IndexEntry[]): Promise<readonly number[]>;
  commit(commit: Commit): Promise<CommitResult>;
  /** Entries with `at` ≤ now, oldest first. */
  due(queue: string, now: number, limit: number): Promise<readonly DueEntry[]>;
  /** The time of the oldest entry of a queue, to sleep until then. */
  nextDue(queue: string): Promise<number | undefined>;
  /** The position of the newest event. */
  head(): Promise<string>;
  /** From `after` (exclusive) on until the signal; rejects OUT_OF_RANGE EVENTS_TRIMMED when events were pruned past it. */
  watch(after: string, signal: AbortSignal): AsyncIterable<StoredEvent>;
  identity(): Promise<StoreIdentity>;
  /** The format of the store as it was last seen: what is written may look like it, and has to be readable to whoever reads it. */
  format(): number;
  /**
   * Begins a higher generation for the process `runId`, from which nothing is granted before it is vetted. Nothing happens where it has one
   * that is as high already: whoever vets at the same time has begun it.
   */
  beginVetting(runId: string, vetting: Vetting): Promise<void>;
  /** Records that the process `runId` is fit to grant from, under the generation that was begun for it. */
  markVetted(runId: string, vetting: Vetting): Promise<void>;
  /** Called when the process behind the store may have changed (reconnect, run_id mismatch). */
  onSuspect(listener: (reason: string) => void): () => void;
  close(): Promise<void>;
}

/** What one call carries besides its subject. */
export interface CallContext {
  readonly signal: AbortSignal;
  /** Counts from 1 over all attempts of the owed effect. */
  readonly attempt: number;
  /** The claim's uid, for traces; a call of the volume itself has none. */
  readonly claim?: string;
  /** Asked last, when all else is at hand, with the instance that is about to be called: undefined = it is not sent any more. */
  readonly wanted?: (instance: string) => Promise<Leave | undefined>;
  /** Told, of a publish that was done, the reference to the version of the secret that it was done with. */
  readonly usedSecret?: (pinned: string) => void;
  /** The volume's one call may be under way: only what names no volume may be asked. */
  readonly beside?: true;
}

/** A controller plugin as far as it is known; `unknown` waits and never means "no". */
export interface ControllerPluginFacts {
  readonly ready: boolean;
  /** Why it is not ready, for people. */
  readonly reason: string;
  readonly version: string;
  /** "no": the plugin has no controller half, on any side. */
  readonly controllerService: Tri;
  readonly createsVolumes: Tri;
  readonly attaches: Tri;
  readonly publishesReadOnly: Tri;
  readonly singleNodeMultiWriter: Tri;
  readonly listsPublishedNodes: Tri;
  readonly expandsVolumes: Tri;
  /** CSI's VolumeExpansion, ONLINE and OFFLINE; "no" to both: the plugin does not say. */
  readonly expandsOnline: Tri;
  readonly expandsOffline: Tri;
  /** What its profile says of that. */
  readonly assumedExpansion: PluginProfile["assumedExpansion"];
  readonly modifiesVolumes: Tri;
  readonly getsVolumes: Tri;
  readonly tellsCondition: Tri;
  readonly tellsHealth: Tri;
  readonly listsHealth: Tri;
  /** It is there, and its calls are held back all the same: why, for people. */
  readonly callsHeld?: string;
  /** It is there, and nothing says which volumes an instance reaches: none is called before a person has said so. */
  readonly ambiguous?: boolean;
}

/** The controller half of the plugins, wherever they run. Secrets are resolved inside, per call, and never leave it. */
export interface ControllerPlugins {
  facts(plugin: string): ControllerPluginFacts;
  /** The instance that a call about the record would go to now, or the one named by `via`; undefined = it cannot be called. */
  instance(target: CallTarget): Seat | undefined;
  /** The same; where the place of the storage is not known every instance is asked. Otherwise why there is none. */
  seek(target: CallTarget): Promise<Seat | Failure>;
  /**
   * Asks the gate of a bar, in the very life that had its call, to let go of the record: it is idle when no call of the record is open there,
   * and from then on none of a lower order leaves.
   */
  quiesce(record: VolumeRecord | CutRecord, bar: CallBar, order: CommitOrder, signal: AbortSignal): Promise<GateAnswer>;
  names(): readonly string[];
  onChange(listener: (plugin: string) => void): () => void;
  /** The place in which the volume is to be made, stored before its first call. */
  homeFor(volume: VolumeRecord): Segments | undefined;
  createVolume(volume: VolumeRecord, call: CallContext): Promise<Outcome<CreatedVolume>>;
  /** May the storage be used as the record says? Changes nothing at the backend. */
  validateVolume(volume: VolumeRecord, call: CallContext): Promise<Outcome<ValidatedVolume>>;
  getCapacity(query: CapacityQuery, call: CallContext): Promise<Outcome<BackendCapacity>>;
  deleteVolume(volume: VolumeRecord, call: CallContext): Promise<Outcome<void>>;
  publish(
    volume: VolumeRecord,
    attachment: Attachment,
    call: CallContext,
  ): Promise<Outcome<Readonly<Record<string, string>>>>;
  unpublish(volume: VolumeRecord, attachment: Attachment, call: CallContext): Promise<Outcome<void>>;
  expandVolume(volume: VolumeRecord, target: SizeRange, call: CallContext): Promise<Outcome<ExpandedVolume>>;
  modifyVolume(
    volume: VolumeRecord,
    target: Readonly<Record<string, string>>,
    call: CallContext,
  ): Promise<Outcome<void>>;
  /** What the backend itself says of a volume, for plugins that can be asked. */
  lookAt(volume: VolumeRecord, call: CallContext): Promise<BackendVolume | undefined>;
  /** After NOT_FOUND from an unpublish: is the pair really absent? `unknown` when the plugin cannot tell. */
  attachmentAbsent(volume: VolumeRecord, attachment: Attachment, call: CallContext): Promise<Tri>;
}

/** What backends have, by their own word. Nothing here changes anything. */
export interface BackendListings {
  can(plugin: string): ListingSkills;
  /** An instance that would have the volume can be asked; if not, no listing proves that its storage is gone. */
  tells(volume: VolumeRecord): boolean;
  volumes(plugin: string, page: ListingRequest, signal: AbortSignal): Promise<Outcome<ListingPage<ListedVolume>>>;
  /** One volume; undefined = the backend says that it has none of this id. */
  volume(plugin: string, externalId: string, signal: AbortSignal): Promise<Outcome<ListedVolume | undefined>>;
  snapshots(
    plugin: string,
    page: ListingRequest,
    secretRef: string | undefined,
    signal: AbortSignal,
  ): Promise<Outcome<ListingPage<ListedSnapshot>>>;
}

/** What backends of CSI 1.13 say is wrong with volumes. Nothing here changes anything. */
export interface BackendHealth {
  /** Of the volumes that are unwell. One that is missing is well, or was missed. */
  list(
    plugin: string,
    page: ListingRequest & { readonly secretRef?: string | undefined; readonly namespace?: string | undefined },
    signal: AbortSignal,
  ): Promise<Outcome<ListingPage<ListedHealth>>>;
  of(volume: VolumeRecord, call: CallContext): Promise<Outcome<readonly VolumeHealthEntry[]>>;
}

/** Every instance of every plugin that this controller sees, from memory. */
export interface PluginCatalogue {
  /** Those beside the controller first, then by node. */
  of(plugin: string): readonly PluginSighting[];
  /** Those on the node; "" = beside the controller. */
  at(plugin: string, node: string): readonly PluginSighting[];
  /** In order. */
  names(): readonly string[];
  /** Which versions of it run. */
  versions(plugin: string): readonly string[];
  /** Plugins with an instance on the node. */
  on(node: string): readonly string[];
  /** An instance came, went or changed, or its node fell silent. */
  onChange(listener: (plugin: string, node: string) => void): () => void;
}

/** What is durable of plugins, from memory: asked on every call. */
export interface PluginProfiles {
  /** What operators said of the plugin, and the defaults for the rest; never undefined. */
  of(plugin: string): PluginProfile;
  /** Why what operators said of it cannot be read; nothing is called then. */
  damage?(plugin: string): string | undefined;
  /** What a version of it told when it last ran, `family:NAME`; what is missing is not known. "" = the latest version. */
  remembered(plugin: string, version: string): Capabilities;
  /** Plugins of which an instance was seen, ever. */
  names(): readonly string[];
  /** Where its last instance was, in words; undefined: none ever was. */
  lastSeen(plugin: string): string | undefined;
  onChange(listener: (plugin: string) => void): () => void;
}

/** The calls about snapshots, wherever the plugin runs. Secrets are resolved inside, per call, and never leave it. */
export interface SnapshotPlugins {
  snapshotFacts(plugin: string): SnapshotFacts;
  /** CreateSnapshot or CreateVolumeGroupSnapshot under the stored name; the same again until it is ready. */
  cut(record: CutRecord, call: CallContext): Promise<Outcome<CutAnswer>>;
  deleteCut(record: CutRecord, call: CallContext): Promise<Outcome<void>>;
  readonly listSnapshots: ListAtBackend;
  /** Rejects when the stream breaks; ending without that means that it is complete. */
  readonly blocks: AskForBlocks;
}

/** What agents measured last of volumes on a node; asked anew when it is too old. */
export interface Figures {
  /** In the order asked. Never rejects for a node that does not answer: that is each volume's error. */
  of(node: string, wanted: readonly FiguresWanted[]): Promise<readonly VolumeSample[]>;
}

/** Nodes as this controller sees them: the stored record, and whose link it has. */
export interface NodeView {
  readonly record: NodeRecord;
  readonly live: "alive" | "suspect" | "unknown";
  /** False: this controller has not the link of its agent, though another one may. */
  readonly linked?: boolean;
  /** Of the record; what is decided by it may be tied to it. */
  readonly rev?: number;
}

export interface Nodes {
  get(name: string): NodeView | undefined;
  /** Why there is none: its record in the store is damaged. */
  damage?(name: string): Error | undefined;
  /** Agents that ask here for a name, also for one that no node has, and are refused. */
  disputes?(): readonly Dispute[];
  list(): readonly NodeView[];
  /** Reads what other controllers may have written since. */
  refresh?(name: string): Promise<void>;
  /** Registered, changed, came back, went silent, or its link here began or ended. */
  onChange(listener: (node: string) => void): () => void;
}

/** Decisions of operators about nodes, stored before anybody sees them. */
export interface NodeDecisions {
  /** What `decide` makes of the record; the same again is not written. It may throw, and is asked again when others were faster. */
  change(name: string, decide: (record: NodeRecord) => NodeRecord, audit?: AuditedAs): Promise<NodeView | undefined>;
  /** Takes the record out of use as long as nothing in the store carries the entry. */
  forget(
    name: string,
    decide: (record: NodeRecord) => NodeRecord,
    unless: IndexEntry,
  ): Promise<"forgotten" | "in use" | "unknown">;
}

/** Makes sure that a machine is off, or says that it cannot. Never rejects. */
export interface Fencer {
  ask(life: FencerAsk, signal: AbortSignal): Promise<FencerAnswer>;
}

/** Whether anything may be granted or offered now (protocol §2.6). */
export interface StoreGate {
  /**
   * Of a plugin: whether anything may be decided of its volumes, too. `vetting`: of the store as it was last seen, also while it is shut;
   * what is done under it is refused once a later one is promised.
   */
  state(plugin?: string): { readonly open: boolean; readonly vetting: Vetting; readonly reason: string };
  onChange(listener: () => void): () => void;
}

export interface Ids {
  /** A fresh uuid: lower case letters, digits and dashes only. */
  uuid(): string;
  random(): number;
}
