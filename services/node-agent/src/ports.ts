/** What the logic of the agent needs of the world. Whoever needs a port takes it as an argument of its `createX`. */
import type { AccessMode, AttachmentMode } from "@holdfast/model/access";
import type { VolumeHealthEntry } from "@holdfast/model/health";
import type { Vetting } from "@holdfast/model/vetting";
import type { Halt } from "./domain/answer-types.ts";
import type { AgentRecord, VolumeRecord } from "./domain/events.ts";
import type { Leftover, MountView } from "./domain/mounts.ts";
import type { AgentFacts, PermitFacts, VolumeRef, VolumeState } from "./domain/types.ts";
import type { CapacityRange, ExpandOrder, VolumeFigures } from "./domain/volume-figures.ts";

/** The mount table of the kernel. */
export interface MountTable {
  /** How far "not mounted" can be verified here. */
  readonly scope: "host" | "own-namespace";
  /** A look that begins after the call. `everywhere`: also what other mount namespaces show. */
  look(everywhere: boolean): Promise<MountView>;
  readonly findHolder: FindHolder;
}

/** Directories under the agent's root; never a path that a mount covers. */
export interface HostDirs {
  /** Makes the staging directory; every component is checked for owner, mode and links. */
  makeStaging(path: string): Promise<void>;
  /** Makes the parent of a target. */
  makeParent(path: string): Promise<void>;
  /**
   * Makes the directory that a file system is to be mounted on, closed to everybody: whoever gets there while nothing is
   * mounted reads and writes nothing. One that is there stays as it is. What a device is bound to is the plugin's to make.
   */
  makeTarget(path: string): Promise<void>;
  /**
   * True: there is no such directory any more, and so nothing mounted on it or below it, which the kernel would have refused. False: the
   * mount table has to say what is there.
   */
  vacate(path: string): Promise<boolean>;
  /** Removes what a plugin left at a target that is no mount point: an empty directory or an empty file, nothing else. */
  removeTarget(path: string): Promise<void>;
  /** Removes an empty directory; one that is not empty stays and is logged. */
  removeDirectory(path: string): Promise<void>;
  /** Whether the kernel refuses writes to a block device; undefined when it does not say. */
  deviceReadOnly(name: string): Promise<boolean | undefined>;
  /** Number of a device node on the host, for a bind of one. */
  deviceNumber(name: string): Promise<{ readonly major: number; readonly minor: number } | undefined>;
  /** How big the kernel says a block device is; undefined when it does not say. */
  deviceBytes(number: { readonly major: number; readonly minor: number }): Promise<bigint | undefined>;
}

export type ChildEnd =
  | { readonly kind: "ended"; readonly code: number; readonly said: string }
  /** Past its deadline, or not even started because earlier ones hang. */
  | { readonly kind: "hung" };

/** Small programs that may touch what a volume covers, and so may hang. */
export interface KillableChildren {
  run(volume: string, command: string, args: readonly string[]): Promise<ChildEnd>;
  /** Children of a volume that were killed and have not ended. */
  leftBehind(volume: string): number;
}

/** A process that has something open below the path. */
export type FindHolder = (path: string) => Promise<Leftover | undefined>;

/** Mounts whose server died under them, or does not answer. */
export interface DeadMounts {
  /** Takes away what is proved dead of a volume that is known to ail; done at once for any other. A halt: it is still there. */
  clear(volume: VolumeState): Promise<Halt | undefined>;
  /** By volume uid. */
  halts(): ReadonlyMap<string, Halt>;
}

/** What a mount comes and goes by. */
export type MountMethod = "NodeStageVolume" | "NodePublishVolume" | "NodeUnpublishVolume" | "NodeUnstageVolume";
export type NodeMethod = MountMethod | "NodeExpandVolume" | "NodeGetVolumeStats" | "NodeGetVolumeHealth";

/** A call without a certain OK, as protocol §2.5 reads it. */
export interface CallFailure {
  readonly method: NodeMethod;
  readonly code: string;
  /** Scrubbed and cut. */
  readonly message: string;
  /** Nothing left this process: the attempt adds no debt. */
  readonly sent: boolean;
  readonly advice: "again" | "wait" | "fail" | "block" | "check-mounts";
  /** What has to change before the same call has a chance, in one sentence. */
  readonly needs: string;
}

export type CallResult = { readonly kind: "done" } | CallNotDone;
export type CallAnswer<T> = { readonly kind: "done"; readonly value: T } | CallNotDone;
type CallNotDone =
  | { readonly kind: "refused"; readonly failure: CallFailure }
  | { readonly kind: "unknown"; readonly failure: CallFailure };

/** Where a volume is on this host, for calls that change nothing of that. */
export interface VolumePlace {
  readonly ref: VolumeRef;
  readonly target: string;
  /** Empty for a plugin without STAGE_UNSTAGE_VOLUME. */
  readonly stagingPath: string;
}

/** What a permit holds beside its facts. It lives as long as the call that carries it. */
export interface PermitContents {
  readonly mountFlags: readonly string[];
  readonly volumeMountGroup: string;
  readonly volumeContext: Readonly<Record<string, string>>;
  readonly publishContext: Readonly<Record<string, string>>;
  readonly stageSecrets: Readonly<Record<string, string>>;
  readonly publishSecrets: Readonly<Record<string, string>>;
  /** The volume was grown while it was not here: owed once it is published. */
  readonly expandTo?: CapacityRange;
  readonly expandSecrets?: Readonly<Record<string, string>>;
  /** Which push of the permit this is, for traces. */
  readonly attempt: number;
  /** Tokens are asked for before each publication. */
  readonly wantsTokens?: boolean;
  /** The longest time until the publication is repeated; absent: never. */
  readonly republishMs?: number;
}

/** The identity tokens of one publication. They live as long as its call, and are kept nowhere. */
export interface PublishTokens {
  readonly secrets: Readonly<Record<string, string>>;
  readonly volumeContext: Readonly<Record<string, string>>;
  /** The texts that no log, error or trace may show. */
  readonly sensitive: Readonly<Record<string, string>>;
}

/** The claim as it is held here. */
export type HeldAs = Pick<PermitFacts, "claimUid" | "epoch">;

/** What controllers give for a claim that they have granted here. Rejects when none gives it. */
export interface TokenSource {
  tokens(ref: VolumeRef, held: HeldAs, signal: AbortSignal): Promise<PublishTokens>;
  /** The permit as it stands, for another publication; undefined: none is wanted. */
  again(
    ref: VolumeRef,
    held: HeldAs,
    signal: AbortSignal,
  ): Promise<{ readonly order: PermitOrder; readonly tokens: PublishTokens } | undefined>;
}

export interface MountOrder {
  readonly ref: VolumeRef;
  readonly facts: PermitFacts;
  readonly contents: PermitContents;
  /** Empty for a plugin without STAGE_UNSTAGE_VOLUME. */
  readonly stagingPath: string;
  /** Of a publication that wants some. */
  readonly tokens?: PublishTokens;
  /** Instead of what the method usually gets. */
  readonly deadlineMs?: number;
}

/** On whose behalf something is undone, for traces. */
export interface UndoCause {
  readonly claim: string;
  readonly attempt?: number;
}

export interface NodePlugin {
  readonly name: string;
  /** STAGE_UNSTAGE_VOLUME; "unknown" stops a call without refusing it. */
  stages(): "yes" | "no" | "unknown";
  stage(order: MountOrder, signal: AbortSignal): Promise<CallResult>;
  publish(order: MountOrder, signal: AbortSignal): Promise<CallResult>;
  unpublish(ref: VolumeRef, target: string, signal: AbortSignal, cause?: UndoCause): Promise<CallResult>;
  unstage(ref: VolumeRef, stagingPath: string, signal: AbortSignal, cause?: UndoCause): Promise<CallResult>;
  expand(order: ExpandOrder, place: VolumePlace, signal: AbortSignal): Promise<CallAnswer<{ capacityBytes: bigint }>>;
  stats(place: VolumePlace, deadlineMs: number, signal: AbortSignal): Promise<CallAnswer<VolumeFigures>>;
  /** Empty paths: it was not tried there. Undefined: the plugin does not tell, or did not answer. */
  health(
    place: VolumePlace,
    deadlineMs: number,
    signal: AbortSignal,
  ): Promise<readonly VolumeHealthEntry[] | undefined>;
}

export interface NodePlugins {
  /** The plugin of that name that may be called now. */
  get(name: string): NodePlugin | undefined;
}

/** The agent's memory: the fold of what was journalled, and the only way to add to it. */
export interface Ledger {
  /** Random id of the journal: another one means that the memory was lost. */
  readonly uid: string;
  agent(): AgentFacts;
  volume(volumeUid: string): VolumeState | undefined;
  volumes(): Iterable<VolumeState>;
  /**
   * Resolves once the records outlive what they have to (record-survival.ts) and `after` is what `volume` answers. Records of
   * one call share one sync.
   */
  commit(records: readonly VolumeRecord[], after: VolumeState): Promise<void>;
  commitAgent(record: AgentRecord): Promise<void>;
  /** What was seen and needs no record. */
  keep(after: VolumeState): void;
  /** The listener is called each time that `volume` answers something else, and must not throw. */
  onVolume(listener: (after: VolumeState) => void): void;
  /** Why no new permit can be taken, or undefined. Releases have a reserve. */
  fullBecause(): string | undefined;
  /** Why no record is written now, or undefined: the journal waits for room on its disk. */
  waitsBecause(): string | undefined;
  /** Why nothing can be journalled any more: the journal is damaged in its middle. */
  readonly damage: string | undefined;
  /** Syncs to disk since the start. */
  syncs(): number;
}

/** A permit as the manager takes it: facts are filled in by it, since paths and digests are the agent's own. */
export interface PermitOrder {
  readonly ref: VolumeRef;
  readonly claim: {
    readonly claimUid: string;
    readonly workload: string;
    readonly alias: string;
    readonly nodeEpoch: number;
    readonly epoch: PermitFacts["epoch"];
    readonly oldestLiveEpoch: PermitFacts["epoch"];
    readonly accessMode: AccessMode;
    readonly attachmentMode: AttachmentMode;
    readonly readOnly: boolean;
    readonly fsType: string;
  };
  readonly contents: PermitContents;
  /** What the store of the controller was vetted as; absent: an earlier version. */
  readonly vetting?: Vetting | undefined;
}

export interface ReleaseOrder {
  /** Which push of the order this is, for traces; none when no controller asked. */
  readonly attempt?: number;
  /** No controller asked for it: one is told, until it has the release on record. */
  readonly unasked?: boolean;
  readonly ref: VolumeRef;
  readonly claimUid: string;
  readonly nodeEpoch: number;
  readonly epoch: PermitFacts["epoch"];
  /** As of a permit; absent too when no controller asked. */
  readonly vetting?: Vetting | undefined;
}
