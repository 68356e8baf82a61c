import type { Clock } from "@holdfast/shared/async/clock";
import type { Logger } from "@holdfast/shared/log/logger";
import type { PlacedRecord } from "../domain/store-types.ts";
import { openRedisExportSource } from "./redis/redis-export-source.ts";
import { openSqliteExportSource } from "./sqlite/sqlite-export-source.ts";

/** A store as a backup reads it. */
export interface ExportSource {
  readonly identity: { readonly clusterUid: string; readonly schema: number; readonly gen: number };
  records(): AsyncIterable<PlacedRecord>;
  close(): Promise<void>;
}

export interface ExportSourceOptions {
  readonly url: string;
  readonly migrateUrl?: string | undefined;
  readonly cell: string;
  readonly log: Logger;
  readonly clock: Clock;
  readonly random: () => number;
}

export const openExportSource = async (options: ExportSourceOptions): Promise<ExportSource> => {
  const { url, migrateUrl, cell, log, clock, random } = options;
  if (url.startsWith("sqlite://")) return openSqliteExportSource(url.slice("sqlite://".length), () => clock.now());
  return await openRedisExportSource({ url: migrateUrl ?? url, cell, log, clock, random });
};
