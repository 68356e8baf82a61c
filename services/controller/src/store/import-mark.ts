/**
 * The mark of a backup that is being put into a store. It stands in the place of the schema, where no version of a controller knows it, so
 * that none starts over a half of a backup, not even one that was built before there were marks: what is missing there would be granted
 * anew, or taken for nobody's.
 *
 * M1 The mark is there before the first record is, and with the identity of the backup in one step. M2 It goes when all of them are.
 */
import { StoreUnfitError } from "./store-unfit-error.ts";

/** In the place of the schema while an import is not over. */
export const importingSchema = 1_000_000;

/** What an import does to its store beside writing records. */
export interface ImportMark {
  /** The digest of the file that an import was begun with and did not end; empty when that died before it could say. */
  begun(): Promise<string | undefined>;
  begin(digest: string): Promise<void>;
  /** The records have this format. */
  finish(format: number): Promise<void>;
}

export const halfImported = (store: string): StoreUnfitError =>
  new StoreUnfitError(
    "STORE_HALF_IMPORTED",
    store,
    [{ field: "schema", description: "says that a backup was being imported and only a part of it is there" }],
    "Repeat the import with the same file (holdfast import FILE): it goes on where it ended. To begin with another backup, use another cell, an empty Redis or another file.",
  );
