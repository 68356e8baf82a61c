import type { KnownController } from "../../domain/controller-roster.ts";
import type { Asked, RepairOutcome, Verb } from "../repair/repair-model.ts";

export interface UpgradeState {
  /** Of the records in the store. */
  readonly format: number;
  /** What finishing would make of it here. */
  readonly newest: number;
  readonly controllers: readonly KnownController[];
}

/** How far an upgrade is, and its end. All reject with HoldfastError and the reasons of docs/errors.md. */
export interface UpgradeCommands {
  readonly status: () => Promise<UpgradeState>;
  readonly finish: Verb<Asked, RepairOutcome>;
}
