import type { WireDuration } from "@holdfast/model/wire-duration";
import { type Snapshot, type SnapshotGroup, SnapshotState } from "@holdfast/shared/gen/holdfast/v1/snapshot";
import type { Context } from "../../frame/context.ts";
import { callText, lastErrorText } from "../resource-words.ts";
import { blockedFailure, overFailure } from "../stuck-failure.ts";
import { snapshotStates } from "./snapshot-words.ts";

type Record = Snapshot | SnapshotGroup;

export interface AwaitedSnapshot<Answer> {
  /** "snapshot" or "snapshot group", and the words of its commands. */
  readonly what: string;
  readonly id: string;
  /** Asks again, idempotently; the server holds the answer for so long at most. */
  ask(waitFor: WireDuration, signal: AbortSignal): Promise<Answer>;
  recordOf(answer: Answer): Record | undefined;
  done(record: Record | undefined): boolean;
  readonly look: string;
  readonly stop: string;
}

const roundSeconds = 10n;

const failIfOver = (what: string, record: Record | undefined, look: string): void => {
  if (record?.state === SnapshotState.SNAPSHOT_STATE_FAILED)
    throw overFailure(what, "FAILED", record.lastError, [look]);
  if (record?.blocked !== undefined) throw blockedFailure(what, record.blocked, look);
};

/** Until it is done; one that failed or is blocked ends the wait with words. */
export const awaitSnapshot = <Answer>(context: Context, awaited: AwaitedSnapshot<Answer>): Promise<Answer> => {
  const what = `${awaited.what} ${context.settings.namespace}/${awaited.id}`;
  async function* rounds(signal: AbortSignal): AsyncIterable<Answer> {
    while (!signal.aborted) yield await awaited.ask({ seconds: roundSeconds, nanos: 0 }, signal);
  }
  return context
    .wait({
      what,
      watch: rounds,
      line: (answer) => {
        const record = awaited.recordOf(answer);
        return record === undefined
          ? what
          : `${what} ${snapshotStates.of(record.state)} ${callText(record.call, context.io.now()) || lastErrorText(record.lastError)}`;
      },
      settled: (answer) => {
        const record = awaited.recordOf(answer);
        if (awaited.done(record)) return { answer };
        failIfOver(what, record, awaited.look);
        return undefined;
      },
      look: awaited.look,
      stop: awaited.stop,
    })
    .then(({ answer }) => answer);
};
