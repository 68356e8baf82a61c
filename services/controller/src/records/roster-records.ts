/** The roster of controllers in the store: one record, so that what is decided from it is decided from all of it. */
import type { Clock } from "@holdfast/shared/async/clock";
import { HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { AuditedAs } from "../domain/audit.ts";
import { type KnownController, stillKnown, withController } from "../domain/controller-roster.ts";
import type { AggregateRef, Commit } from "../domain/store-types.ts";
import type { Ids, Store } from "../ports.ts";
import { auditOf } from "./audit-records.ts";
import { recordReader } from "./record-reader.ts";
import { rosterShape } from "./record-shapes.ts";

export interface RosterView {
  readonly controllers: readonly KnownController[];
  readonly rev: number;
}

export interface RosterRecords {
  /** Those that are on it now. */
  read(): Promise<RosterView>;
  /** The controller is there and reads what it says. */
  tell(one: Omit<KnownController, "seenAt">): Promise<void>;
  /**
   * The store's format is `format` from now on, on the word that is stored with it. False: the roster is not the one of the view any
   * more, and nothing was stored.
   */
  raise(format: number, view: RosterView, word: AuditedAs): Promise<boolean>;
}

export const rosterRef: AggregateRef = { kind: "meta", key: "controllers" };
const rounds = 12;

interface StoredRoster {
  readonly controllers: readonly KnownController[];
}

const readRoster = recordReader<StoredRoster>({ shape: rosterShape });

export const createRosterRecords = ({
  store,
  clock,
  ids,
}: {
  readonly store: Pick<Store, "get" | "commit">;
  readonly clock: Pick<Clock, "now">;
  readonly ids: Pick<Ids, "uuid">;
}): RosterRecords => {
  const all = async (): Promise<RosterView> => {
    const stored = await store.get(rosterRef);
    return stored === undefined ? { controllers: [], rev: 0 } : { ...readRoster(stored), rev: stored.rev };
  };

  /** False: somebody else was faster, or nobody knows. */
  const write = async (
    controllers: readonly KnownController[],
    expectedRev: number,
    more: Partial<Pick<Commit, "raisesFormat">> & { readonly word?: AuditedAs } = {},
  ): Promise<boolean> => {
    const { word, ...beside } = more;
    const at = { now: clock.now(), revisionBefore: expectedRev };
    const { writes, events } = auditOf(word, at, rosterRef, expectedRev + 1);
    const body = JSON.stringify({ controllers } satisfies StoredRoster);
    try {
      const result = await store.commit({
        opId: ids.uuid(),
        writes: [{ ref: rosterRef, expectedRev, body, indexes: [], due: [] }, ...writes],
        events,
        requiresVetted: false,
        ...beside,
      });
      return result.ok;
    } catch (error) {
      if (isHoldfastError(error) && error.reason === "STORE_OUTCOME_UNKNOWN") return false;
      throw error;
    }
  };

  return {
    async read() {
      const { controllers, rev } = await all();
      return { controllers: stillKnown(controllers, clock.now()), rev };
    },

    async tell(one) {
      for (let round = 0; round < rounds; round += 1) {
        const { controllers, rev } = await all();
        if (await write(withController(controllers, { ...one, seenAt: clock.now() }), rev)) return;
      }
      throw new HoldfastError({
        kind: "aborted",
        reason: "REVISION_CONFLICT",
        message: "the roster of controllers is being changed by others all the time; it is told again later",
      });
    },

    raise: (format, { controllers, rev }, word) => write(controllers, rev, { raisesFormat: format, word }),
  };
};
