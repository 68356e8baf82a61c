import type { Tri } from "@holdfast/model/tri";
import type { Outcome } from "../outcome.ts";
import type { SnapshotRecord } from "./snapshot.ts";
import type { MadeSnapshot } from "./snapshot-answer.ts";

/** What is asked of plugins about snapshots, and what they tell. */

/** What a plugin is known to do with snapshots; `unknown` waits and never means "no". */
export interface SnapshotFacts {
  readonly ready: boolean;
  /** Why it is not ready, for people. */
  readonly reason: string;
  readonly snapshots: Tri;
  readonly lists: Tri;
  readonly clones: Tri;
  readonly groups: Tri;
  readonly metadata: Tri;
  /** They may be usable in some places only, which can be asked for. */
  readonly places: Tri;
  /** A volume can be asked for in a place. */
  readonly volumePlaces: Tri;
}

interface ExternalSnapshotsPage {
  readonly snapshots: readonly MadeSnapshot[];
  readonly next: string;
}

interface ExternalSnapshotsQuestion {
  readonly externalVolumeId: string;
  readonly namespace: string;
  readonly secretRef: string | undefined;
  readonly size: number;
  readonly token: string;
}

export interface BlockMetadata {
  readonly fixedLength: boolean | undefined;
  readonly capacity: bigint;
  readonly blocks: readonly { readonly offset: bigint; readonly size: bigint }[];
}

export interface BlockQuestion {
  /** The blocks in which `target` differs from it; absent: all blocks of `target` that hold data. */
  readonly base?: SnapshotRecord;
  readonly target: SnapshotRecord;
  readonly startingOffset: bigint;
  readonly maxResults: number;
  /** For all of it. */
  readonly totalMs: number;
}

export type ListAtBackend = (
  plugin: string,
  question: ExternalSnapshotsQuestion,
  signal: AbortSignal,
) => Promise<Outcome<ExternalSnapshotsPage>>;

export type AskForBlocks = (question: BlockQuestion, signal: AbortSignal) => AsyncIterable<BlockMetadata>;
