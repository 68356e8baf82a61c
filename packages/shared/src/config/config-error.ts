import { type FieldViolation, HoldfastError } from "../errors/holdfast-error.ts";

/** Everything that is wrong with the settings, at once: whoever starts a service should not learn of mistakes one by one. */
export class ConfigError extends HoldfastError {
  constructor(violations: readonly FieldViolation[]) {
    const listed = violations.map(({ field, description }) => `  ${field} ${description}`).join("\n");
    const count = violations.length === 1 ? "one mistake" : `${violations.length} mistakes`;
    super({ kind: "invalid", reason: "CONFIG_INVALID", message: `the settings have ${count}:\n${listed}`, violations });
    this.name = "ConfigError";
  }
}
