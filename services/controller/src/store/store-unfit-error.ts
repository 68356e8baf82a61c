import { ConfigError } from "@holdfast/shared/config/config-error";
import type { FieldViolation } from "@holdfast/shared/errors/holdfast-error";

/** A store that cannot be used as it is set up. A mistake in the settings like any other: the service ends with exit code 78. */
export class StoreUnfitError extends ConfigError {
  constructor(store: string, faults: readonly FieldViolation[], advice?: string) {
    super(faults);
    this.name = "StoreUnfitError";
    const listed = faults.map(({ field, description }) => `  ${field} ${description}`).join("\n");
    this.message = `the store ${store} cannot be used as it is:\n${listed}${advice === undefined ? "" : `\n${advice}`}`;
  }
}
