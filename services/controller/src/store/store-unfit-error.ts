import { ConfigError } from "@holdfast/shared/config/config-error";
import type { FieldViolation } from "@holdfast/shared/errors/holdfast-error";
import { formatsText, type StoreFormats } from "../domain/store-format.ts";
import { newerText, wayBack } from "./store-errors.ts";

export type UnfitReason =
  /** It may forget what it acknowledged. */
  | "STORE_VOLATILE"
  /** It holds the data of others, or nothing any more. */
  | "STORE_FOREIGN"
  /** Its records have a format that this release cannot read. */
  | "STORE_SCHEMA_NEWER"
  | "STORE_SCHEMA_OLDER"
  /** Its server lacks what every call needs. */
  | "STORE_TOO_OLD"
  /** A backup was being put into it, and only a part of it is there. */
  | "STORE_HALF_IMPORTED"
  /** It is not prepared, or cannot be opened. */
  | "CONFIG_INVALID";

/** A store that cannot be used as it is set up. A mistake in the settings like any other: the service ends with exit code 78. */
export class StoreUnfitError extends ConfigError {
  override readonly reason: UnfitReason;

  constructor(reason: UnfitReason, store: string, faults: readonly FieldViolation[], advice?: string) {
    super(faults);
    this.name = "StoreUnfitError";
    this.reason = reason;
    const listed = faults.map(({ field, description }) => `  ${field} ${description}`).join("\n");
    this.message = `the store ${store} cannot be used as it is:\n${listed}${advice === undefined ? "" : `\n${advice}`}`;
  }
}

/** Its field is named "schema" in every store. */
export const unreadableFormat = (store: string, found: number, formats: StoreFormats): StoreUnfitError =>
  found > formats.newest
    ? new StoreUnfitError(
        "STORE_SCHEMA_NEWER",
        store,
        [{ field: "schema", description: newerText(found, formats) }],
        wayBack,
      )
    : new StoreUnfitError("STORE_SCHEMA_OLDER", store, [
        {
          field: "schema",
          description: `is format ${found}, this release reads ${formatsText(formats)}: start the release before this one, finish its upgrade (holdfast upgrade finish), and come back`,
        },
      ]);
