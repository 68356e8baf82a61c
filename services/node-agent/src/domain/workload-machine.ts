/**
 * One workload on this host: what its runner asked for, as the journal has it. What is mounted for it is in the records of
 * the volumes; here is only what they cannot tell. Pure, and total: every (phase × event) has been thought about once.
 *
 * Z1 `wanted` is durable before any claim is asked for: what may have been claimed is known to be owed (no silent leak).
 * Z2 `undoing` and `releasing` never go back: whoever wants the volumes again begins anew when this life is gone.
 */

export const workloadPhases = ["wanted", "claimed", "undoing", "releasing"] as const;
/**
 * - `wanted`: claims may have been asked for; which ones they are is not known.
 * - `claimed`: these claims were granted or queued for it.
 * - `undoing`: preparing it failed; what was done is taken back.
 * - `releasing`: its runner gave it back.
 */
export type WorkloadPhase = (typeof workloadPhases)[number];

export type Propagation = "private" | "host-to-container" | "bidirectional";

export interface ContainerPlace {
  readonly container: string;
  readonly path: string;
  readonly readOnly: boolean;
  readonly propagation: Propagation;
}

/** One volume of a workload, without its flags: a driver may treat those as a secret. */
export interface WorkloadVolume {
  readonly alias: string;
  readonly volume: string;
  readonly readOnly: boolean;
  readonly places: readonly ContainerPlace[];
}

export interface WorkloadName {
  readonly namespace: string;
  readonly workload: string;
}

export interface WorkloadFailure {
  readonly reason: string;
  readonly alias: string;
  readonly volume: string;
}

export interface WorkloadState extends WorkloadName {
  readonly phase: WorkloadPhase;
  /** It was asked for with a ticket, of which nothing is kept. */
  readonly ticketed?: true;
  /** Salted hash of all that was asked for: shows that a repeat is the same. */
  readonly digest: string;
  readonly volumes: readonly WorkloadVolume[];
  /** By alias, once `claimed`. */
  readonly claimUids: Readonly<Record<string, string>>;
  /** Its processes hold mounts that died. */
  readonly restart?: { readonly since: number; readonly reason: string };
  /** Why it is `undoing`. */
  readonly failure?: WorkloadFailure;
}

/** Durable, as every record of the journal. */
export type WorkloadRecord = WorkloadName &
  (
    | {
        readonly type: "wanted";
        readonly digest: string;
        readonly volumes: readonly WorkloadVolume[];
        readonly ticketed?: true;
      }
    | { readonly type: "claimed"; readonly claimUids: Readonly<Record<string, string>> }
    | { readonly type: "failed"; readonly failure: WorkloadFailure }
    | { readonly type: "release-wanted" }
    | { readonly type: "restart-wanted"; readonly since: number; readonly reason: string }
    | { readonly type: "restarted" }
    | { readonly type: "gone" }
  );

export type WorkloadBook = Readonly<Record<string, WorkloadState>>;

export const noWorkloads: WorkloadBook = {};

/** Ids hold no slash, so that no two names share a key. */
export const workloadKey = ({ namespace, workload }: WorkloadName): string => `${namespace}/${workload}`;

type Next = WorkloadPhase | "removed" | "ignored";
type Event = WorkloadRecord["type"];

/** A record that comes too late for the phase changes nothing: two of them may cross in the journal's queue. */
export const workloadTable: Readonly<Record<"none" | WorkloadPhase, Readonly<Record<Event, Next>>>> = {
  none: {
    wanted: "wanted",
    claimed: "ignored",
    failed: "ignored",
    // Nothing is known of it, and its claims may be: a journal was lost, or they were asked for elsewhere.
    "release-wanted": "releasing",
    "restart-wanted": "ignored",
    restarted: "ignored",
    gone: "ignored",
  },
  wanted: {
    wanted: "wanted",
    claimed: "claimed",
    failed: "undoing",
    "release-wanted": "releasing",
    "restart-wanted": "ignored",
    restarted: "ignored",
    gone: "removed",
  },
  claimed: {
    wanted: "claimed",
    claimed: "claimed",
    failed: "undoing",
    "release-wanted": "releasing",
    "restart-wanted": "claimed",
    restarted: "claimed",
    gone: "removed",
  },
  undoing: {
    wanted: "ignored", // Z2
    claimed: "ignored",
    failed: "ignored",
    "release-wanted": "releasing",
    "restart-wanted": "ignored",
    restarted: "ignored",
    gone: "removed",
  },
  releasing: {
    wanted: "ignored", // Z2
    claimed: "ignored",
    failed: "ignored",
    "release-wanted": "releasing",
    "restart-wanted": "ignored",
    restarted: "ignored",
    gone: "removed",
  },
};

export const applyWorkload = (book: WorkloadBook, record: WorkloadRecord): WorkloadBook => {
  const key = workloadKey(record);
  const known = book[key];
  const phase = workloadTable[known?.phase ?? "none"][record.type];
  if (phase === "ignored") return book;
  if (phase === "removed") {
    const { [key]: gone, ...others } = book;
    return others;
  }
  return { ...book, [key]: changed(known ?? newWorkload(record), record, phase) };
};

/** Whatever processes held the mounts that died, they are gone. */
export const afterBoot = (book: WorkloadBook): WorkloadBook =>
  Object.fromEntries(Object.entries(book).map(([key, { restart, ...state }]): [string, WorkloadState] => [key, state]));

const newWorkload = ({ namespace, workload }: WorkloadName): WorkloadState => ({
  namespace,
  workload,
  phase: "wanted",
  digest: "",
  volumes: [],
  claimUids: {},
});

const changed = (state: WorkloadState, record: WorkloadRecord, phase: WorkloadPhase): WorkloadState => {
  switch (record.type) {
    case "wanted": {
      const { digest, volumes, ticketed } = record;
      return { ...state, phase, digest, volumes, ...(ticketed === undefined ? {} : { ticketed }) };
    }
    case "claimed":
      return { ...state, phase, claimUids: record.claimUids };
    case "failed":
      return { ...state, phase, failure: record.failure };
    case "restart-wanted": {
      const { since, reason } = record;
      return { ...state, phase, restart: state.restart ?? { since, reason } };
    }
    case "restarted": {
      const { restart, ...rest } = state;
      return { ...rest, phase };
    }
    case "release-wanted":
    case "gone":
      return { ...state, phase };
  }
};
