import type { Capability, ContentSource } from "./records.ts";

export interface CapacityRange {
  /** 0: not given. */
  readonly requiredBytes: bigint;
  readonly limitBytes: bigint;
}

export interface CreateVolumeInput {
  readonly name: string;
  readonly capacity: CapacityRange;
  readonly capabilities: readonly Capability[];
  readonly parameters: Readonly<Record<string, string>>;
  readonly mutableParameters: Readonly<Record<string, string>>;
  readonly source: ContentSource | undefined;
  /** Segments of each requisite topology; empty: anywhere. */
  readonly requisite: readonly Readonly<Record<string, string>>[];
  readonly preferred: readonly Readonly<Record<string, string>>[];
}
