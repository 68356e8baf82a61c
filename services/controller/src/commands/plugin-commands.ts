import { HoldfastError, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import { checkPlugin } from "../domain/limits.ts";
import { checkProfile, type PluginProfile, sameProfile, settledProfile } from "../domain/plugin-profile.ts";
import { withProfile } from "../domain/plugin-record.ts";
import type { PluginRecords, VersionedPlugin } from "../records/plugin-records.ts";
import type { Caller } from "./model.ts";

export interface SetPluginProfileInput {
  readonly name: string;
  /** Zeros stand for the defaults. */
  readonly profile: PluginProfile;
  /** 0 = whatever revision the record has. */
  readonly expectedRevision: number;
}

/** What is kept of plugins, to read. */
export type StoredPlugins = Pick<PluginRecords, "get" | "of" | "list">;

export interface PluginCommands {
  setProfile(input: SetPluginProfileInput, caller: Caller): Promise<VersionedPlugin>;
}

export interface PluginCommandDeps {
  readonly records: Pick<PluginRecords, "change">;
}

export const validateProfile = ({ name, profile, expectedRevision }: SetPluginProfileInput): void => {
  const violations = [...checkPlugin("name", name), ...checkProfile(profile)];
  if (!Number.isSafeInteger(expectedRevision) || expectedRevision < 0)
    violations.push({ field: "expected_revision", description: "has to be 0 or a revision that was read" });
  if (violations.length > 0) throw invalidArgument(violations);
};

/** What operators say of plugins. */
export const createPluginCommands = ({ records }: PluginCommandDeps): PluginCommands => ({
  setProfile(input, { who, why }) {
    validateProfile(input);
    const profile = settledProfile(input.profile);
    return records.change(input.name, (record, rev) => {
      const next = withProfile(record, profile);
      // The same again, also when its first answer was lost: nothing to compare.
      const same = record.profile === undefined ? next.profile === undefined : sameProfile(record.profile, profile);
      if (same && rev > 0) return record;
      if (input.expectedRevision !== 0 && input.expectedRevision !== rev)
        throw otherRevision(input.name, input.expectedRevision, rev);
      return { ...next, changedBy: { who, why } };
    });
  },
});

const otherRevision = (plugin: string, wanted: number, found: number): HoldfastError =>
  new HoldfastError({
    kind: "aborted",
    reason: "REVISION_CONFLICT",
    message: `the record of plugin ${plugin} has revision ${found}, not ${wanted}: somebody changed it; read it and decide again`,
    metadata: { plugin, revision: String(found) },
  });
