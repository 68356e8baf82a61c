import type { Clock } from "@holdfast/shared/async/clock";
import type { Logger } from "@holdfast/shared/log/logger";
import type { ExportSource } from "./export-source.ts";
import { type RedisAccess, refuseUnfitAccess } from "./redis/redis-access.ts";
import { openRedisExportSource } from "./redis/redis-export-source.ts";
import { openSqliteExportSource } from "./sqlite/sqlite-export-source.ts";

export interface ExportSourceOptions {
  readonly url: string;
  readonly migrateUrl?: string | undefined;
  readonly access?: RedisAccess;
  readonly cell: string;
  readonly log: Logger;
  readonly clock: Clock;
  readonly random: () => number;
}

export const openExportSource = async (options: ExportSourceOptions): Promise<ExportSource> => {
  const { url, migrateUrl, access = {}, cell, log, clock, random } = options;
  refuseUnfitAccess([url, ...(migrateUrl === undefined ? [] : [migrateUrl])], access);
  if (url.startsWith("sqlite://")) return openSqliteExportSource(url.slice("sqlite://".length), () => clock.now());
  return await openRedisExportSource({ url: migrateUrl ?? url, access, cell, log, clock, random });
};
