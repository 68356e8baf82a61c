/** The roster of controllers in the store: one record, so that what is decided from it is decided from all of it. */

import { type KnownController, stillKnown, withController } from "../domain/controller-roster.ts";
import type { AuditedAs } from "../domain/repair/audit.ts";
import { changedAllTheTime } from "./commit-rounds.ts";
import { createMetaTable, metaRef } from "./meta-table.ts";
import type { RecordTableDeps } from "./record-table.ts";
import { rosterShape } from "./shape/controller-shapes.ts";

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

export const rosterRef = metaRef("controllers");

const what = "the roster of controllers";

interface StoredRoster {
  readonly controllers: readonly KnownController[];
}

export const rosterBusy = () => changedAllTheTime(what);

export const createRosterRecords = (deps: RecordTableDeps): RosterRecords => {
  const { now } = deps.clock;
  const table = createMetaTable<StoredRoster>(deps, { shape: rosterShape, what });

  return {
    async read() {
      const found = await table.get(rosterRef);
      return { controllers: stillKnown(found?.record.controllers ?? [], now()), rev: found?.rev ?? 0 };
    },

    async tell(one) {
      await table.change(rosterRef, (found) => ({
        record: { controllers: withController(found?.record.controllers ?? [], { ...one, seenAt: now() }) },
      }));
    },

    async raise(format, { controllers, rev }, word) {
      const { changed } = await table.change(rosterRef, (found) =>
        (found?.rev ?? 0) === rev ? { record: { controllers }, raisesFormat: format, audit: word } : undefined,
      );
      return changed;
    },
  };
};
