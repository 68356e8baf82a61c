/**
 * One run over one volume, in its lane: what is known, and what has to reach the journal before the next effect.
 *
 * R1 Nothing is done between a noted record and its commit except other notes: a call comes after `commit` (I4). Only what says that less
 *    is owed, or in doubt, may wait for a later one: an agent that lost it calls once more.
 * R2 Records that precede the same call share one sync.
 */
import type { VolumeEvent, VolumeRecord, VolumeSighting } from "../domain/events.ts";
import type { MountView } from "../domain/mounts.ts";
import type { StageState, VolumeState } from "../domain/types.ts";
import { applyEvent, isFault, withSight } from "../domain/volume-machine.ts";
import type { Ledger } from "../ports.ts";

export type StageSight = Pick<StageState, "marks" | "before">;

export interface VolumeRun {
  volume(): VolumeState;
  /** To be written with the next commit. */
  note(record: VolumeRecord): void;
  see(sighting: VolumeSighting): void;
  /** Not recorded: of a stage from which nothing was published, or whose last call ended with the agent's life. */
  stageShows(sight: StageSight): void;
  /** Writes all that was noted, and these; one sync. */
  commit(...records: VolumeRecord[]): Promise<void>;
  /** Before a call whose intent was written earlier: what is noted is written, unless it may wait (R1). */
  ready(): Promise<void>;
  /** Writes what is left and keeps what was seen. */
  finish(): Promise<void>;
  /** After an error: what was under way may have happened; nothing that was only noted is believed. */
  giveUp(): void;
  /** A look at the mounts that no call has made stale yet; at those of the whole host, if asked for. */
  freshView(everywhere: boolean): MountView | undefined;
  setView(view: MountView, everywhere: boolean): void;
  /** A call is about to change the mounts. */
  staleView(): void;
}

const mayWait: ReadonlySet<VolumeRecord["type"]> = new Set(["staged", "unpublished"] as const);

export function createVolumeRun(ledger: Ledger, initial: VolumeState | undefined): VolumeRun {
  let state = initial;
  let noted: VolumeRecord[] = [];
  let fresh: { readonly view: MountView; readonly everywhere: boolean } | undefined;

  const apply = (event: VolumeEvent): void => {
    const after = applyEvent(state, event);
    if (isFault(after)) throw new Error(`the volume machine does not allow ${after.fault}`);
    state = after;
  };
  const known = (): VolumeState => {
    if (state === undefined) throw new Error("the run has no volume yet: its first event is a permit");
    return state;
  };
  const write = async (): Promise<void> => {
    const records = noted;
    noted = [];
    if (records.length > 0) await ledger.commit(records, known());
  };

  return {
    volume: known,
    note(record) {
      apply(record);
      noted.push(record);
    },
    see: apply,
    stageShows(sight) {
      state = withSight(known(), sight);
    },
    async commit(...records) {
      for (const record of records) {
        apply(record);
        noted.push(record);
      }
      await write(); // R2
    },
    ready: () => (noted.every(({ type }) => mayWait.has(type)) ? Promise.resolve() : write()),
    async finish() {
      await write();
      if (state !== undefined) ledger.keep(state);
    },
    giveUp() {
      const known = state === undefined ? undefined : ledger.volume(state.ref.volumeUid);
      if (known === undefined) return;
      const unsure = applyEvent(known, { type: "recovered", stageSeen: false, sameBoot: true });
      if (!isFault(unsure)) ledger.keep(unsure);
    },
    freshView: (everywhere) => (fresh === undefined || (everywhere && !fresh.everywhere) ? undefined : fresh.view),
    setView(view, everywhere) {
      fresh = { view, everywhere };
    },
    staleView() {
      fresh = undefined;
    },
  };
}
