/**
 * What stored secrets need beside callers: a new first key in the key file is used for all that is there, and what came with a request goes
 * once nothing refers to it. Every controller does it; comparing revisions keeps them out of each other's way.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { every } from "@holdfast/shared/async/every";
import type { Logger } from "@holdfast/shared/log/logger";
import { secretKey, secretUser } from "../domain/secret/secret.ts";
import { pagesOf } from "../records/pages-of.ts";
import type { Sealer } from "./sealer.ts";
import type { SecretRecords, StoredSecret } from "./secret-records.ts";

export interface SecretUpkeepDeps {
  readonly records: SecretRecords;
  readonly sealer: Pick<Sealer, "rewrap">;
  readonly clock: Clock;
  readonly log: Logger;
}

const everyMs = 60_000;
/** A request that came with secrets has stored the record that refers to them long before. */
const inlineGraceMs = 600_000;
const pageSize = 100;
const by = { who: "controller", why: "upkeep" } as const;

export const createSecretUpkeep = ({ records, sealer, clock, log }: SecretUpkeepDeps) => {
  const abandoned = async ({ record, rev }: StoredSecret): Promise<boolean> => {
    if (!record.inline || clock.now() - record.updatedAt < inlineGraceMs) return false;
    if ((await records.users(record, undefined, 1)).length > 0) return false;
    const draft = { record: null, note: { change: "DELETED", version: 0, ...by }, unused: secretUser(record) } as const;
    return (await records.change(record, (found) => (found?.rev === rev ? draft : undefined))).changed;
  };

  const rewrapped = async ({ record, rev }: StoredSecret): Promise<void> => {
    const versions = await Promise.all(record.versions.map((version) => sealer.rewrap(version, record)));
    if (versions.every((version, i) => version === record.versions[i])) return;
    const draft = { record: { ...record, versions }, note: { change: "REWRAPPED", version: 0, ...by } } as const;
    // Another controller was faster: that one or the next round does it.
    await records.change(record, (found) => (found?.rev === rev ? draft : undefined));
  };

  /** Resolves when every secret was looked at; one that cannot be mended is told, and the others go on. */
  const once = async (): Promise<void> => {
    for await (const page of pagesOf((after) => records.list("", { after, limit: pageSize })))
      for (const stored of page.records) {
        try {
          if (!(await abandoned(stored))) await rewrapped(stored);
        } catch (error) {
          log.warn("a stored secret could not be looked after", { secret: secretKey(stored.record), error });
        }
      }
  };

  return {
    once,
    run: (signal: AbortSignal): Promise<never> =>
      every(everyMs, once, {
        signal,
        clock,
        jitter: 0.2,
        immediate: true,
        onError: (error) => log.warn("stored secrets could not be looked after", { error }),
      }),
  };
};
