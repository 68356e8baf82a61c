/**
 * What follows an attempt of an owed call of a volume: one total table. Snapshots and groups have theirs in snapshot-machine.ts.
 *
 * Y1 An answer decides nothing unless the record still owes the very call that was answered. Y2 A refusal ends an obligation only when no
 * attempt of the call is in doubt, and nothing ends while a call may be open (I5). Y3 Nothing but an answer "done" proves that something
 * is gone.
 */
import { isDoubtful } from "../doubt.ts";
import type { Moment } from "../moment.ts";
import { mayBeOpen } from "../open-call.ts";
import { neverSent, type Outcome } from "../outcome.ts";
import type { ExpansionState } from "../size/expansion.ts";
import type { Attachment, VolumeRecord } from "../volume/volume.ts";

/** `finish`: the attach of a pair whose undo is owed already; `reattach`: of one that the backend has lost under its users. */
export const obligations = [
  "create",
  "validate",
  "delete",
  "attach",
  "finish",
  "detach",
  "reattach",
  "expand",
  "modify",
] as const;
export type Obligation = (typeof obligations)[number];

/** An outcome, as far as what follows depends on it. */
export const answers = ["done", "refused", "held off", "full", "unsent", "stuck", "unknown"] as const;
/**
 * `held off`: refused for as long as something else is as it is. `full`: there is no room, and something may stand there all the same.
 * `unsent`: no call left, and nothing was refused. `stuck`: no certain answer, and repeating alone does not help.
 */
export type Answer = (typeof answers)[number];

/** What the attempts prove together: nothing is in doubt, one may have done its work, or one may still do it. */
export const certainties = ["certain", "doubtful", "open"] as const;
export type Certainty = (typeof certainties)[number];

export type Want = "wanted" | "unwanted";

/**
 * `again`     the same call later; the record says why, where repeating alone does not help;
 * `slowly`    the same, and the record says why in any case;
 * `elsewhere` the same in another place, once this one is clean;
 * `failed`    over, and nothing is left behind; `gone` the same, and the record ends;
 * `uncertain` over, but something may stand at the backend: only a person's word ends the doubt;
 * `undo`      over, and the opposite call is owed;
 * `paused`    refused for now: the volume's one call is given back, and taken again later;
 * `shaken`    the same, and what the attempt did is in doubt;
 * `returned`  the volume's one call is given back, since nothing was sent under it.
 */
export type Follow =
  | "done"
  | "again"
  | "slowly"
  | "elsewhere"
  | "failed"
  | "gone"
  | "uncertain"
  | "undo"
  | "paused"
  | "shaken"
  | "returned";

type Row = Record<Certainty, Follow>;
type Rows = Record<Answer, Row>;

const each = (follow: Follow): Row => ({ certain: follow, doubtful: follow, open: follow });
const row = (certain: Follow, doubtful: Follow, open: Follow): Row => ({ certain, doubtful, open });
const both = (rows: Rows): Record<Want, Rows> => ({ wanted: rows, unwanted: rows });

/** Y3: until the answer is "done". */
const untilDone: Rows = {
  done: each("done"),
  refused: each("slowly"),
  "held off": each("slowly"),
  full: each("again"),
  unsent: each("again"),
  stuck: each("again"),
  unknown: each("again"),
};

/** A wish that is refused while an attempt is in doubt stands: the backend may have fulfilled it. */
const untilSettled: Rows = {
  ...untilDone,
  refused: row("failed", "paused", "paused"),
  "held off": each("paused"),
  unsent: each("returned"),
  stuck: each("paused"),
};

/** Total: a new obligation or answer does not compile until every cell is placed. */
export const followTable: Record<Obligation, Record<Want, Rows>> = {
  create: {
    wanted: {
      ...untilDone,
      refused: row("failed", "uncertain", "again"),
      // Only a change elsewhere can lift it: a wanted volume waits for that.
      "held off": each("again"),
      full: row("elsewhere", "elsewhere", "again"),
    },
    unwanted: {
      ...untilDone,
      refused: row("gone", "uncertain", "again"),
      "held off": row("gone", "uncertain", "again"),
      // No call for it has ever left: nothing has to be made to be deleted.
      unsent: row("gone", "again", "again"),
    },
  },
  // Asking leaves nothing behind: a "no" is final whatever became of the attempts before.
  validate: both({ ...untilDone, refused: each("failed"), "held off": each("again") }),
  delete: both(untilDone),
  // Whether somebody wants the attachment is asked of each claim.
  attach: both({
    ...untilDone,
    refused: row("failed", "undo", "again"),
    "held off": row("paused", "paused", "again"),
    full: row("shaken", "shaken", "again"),
  }),
  // Whatever the answer is, the detach follows.
  finish: both({
    done: each("done"),
    refused: row("done", "done", "again"),
    "held off": row("done", "done", "again"),
    full: row("done", "done", "again"),
    unsent: row("done", "done", "again"),
    stuck: row("done", "done", "again"),
    unknown: row("done", "done", "again"),
  }),
  detach: both(untilDone),
  // Its users keep the attachment, whatever the answer is.
  reattach: both({ ...untilDone, refused: each("paused"), "held off": each("paused"), unsent: each("returned") }),
  expand: both(untilSettled),
  modify: both(untilSettled),
};

/** Of an attach, by the state of its pair. */
const attachOf = ({ state, owed }: Attachment): Obligation | undefined =>
  (({ ATTACHING: "attach", DETACHING: "finish", ATTACHED: owed?.why === "missing" ? "reattach" : undefined }) as const)[
    state
  ];

/** A wish that is in doubt may keep its call. */
const isCalling = (state: ExpansionState | undefined): boolean => state === "CALLING" || state === "UNCERTAIN";

/** The call that the record owes under its intent, read from the state that waits for the call. */
export const obligationOf = (volume: VolumeRecord): Obligation | undefined => {
  const { state, intent, attachments } = volume;
  const attachment = attachments[intent?.node ?? ""];
  switch (intent?.op) {
    case "create":
    case "validate":
      return state === "CREATING" ? intent.op : undefined;
    case "delete":
      return state === "DELETING" ? "delete" : undefined;
    case "attach":
      return attachment && attachOf(attachment);
    case "detach":
      return attachment?.state === "DETACHING" ? "detach" : undefined;
    case "expand":
      return isCalling(volume.expansion?.state) ? "expand" : undefined;
    case "modify":
      return isCalling(volume.modification?.state) ? "modify" : undefined;
    case undefined:
      return undefined;
  }
};

/** Y1. */
export const owes = (volume: VolumeRecord, owed: Obligation, node?: string): boolean =>
  obligationOf(volume) === owed && volume.intent?.node === node;

const answerOf = (outcome: Outcome<unknown>, full: boolean): Answer => {
  if (outcome.kind === "done") return "done";
  const { kind, failure } = outcome;
  if (full) return "full";
  if (kind === "refused") return failure.advice === "block" ? "held off" : "refused";
  if (neverSent(failure)) return "unsent";
  return failure.advice === "block" ? "stuck" : "unknown";
};

const isInDoubt = ({ intent }: VolumeRecord, at: Moment): boolean => intent !== undefined && isDoubtful(intent, at);

interface Known {
  readonly node?: string;
  /** There is no room for what was asked. */
  readonly full?: boolean;
  /** An attempt before may have done its work; the intent tells, where nothing else does. */
  readonly doubtful?: boolean;
}

export const followOf = (
  owed: Obligation,
  volume: VolumeRecord,
  outcome: Outcome<unknown>,
  at: Moment,
  {
    node,
    full = outcome.kind !== "done" && outcome.failure.nodeFull === true,
    doubtful = isInDoubt(volume, at),
  }: Known = {},
): Follow | "nothing" => {
  if (!owes(volume, owed, node)) return "nothing";
  const want = volume.goal === "absent" ? "unwanted" : "wanted";
  const certainty: Certainty = mayBeOpen(volume) ? "open" : doubtful ? "doubtful" : "certain";
  return followTable[owed][want][answerOf(outcome, full)][certainty];
};
