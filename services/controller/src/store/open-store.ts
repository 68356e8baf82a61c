import path from "node:path";
import type { Clock } from "@holdfast/shared/async/clock";
import { ConfigError } from "@holdfast/shared/config/config-error";
import type { Logger } from "@holdfast/shared/log/logger";
import { readableFormats, type StoreFormats } from "../domain/store-format.ts";
import type { Ids, Store } from "../ports.ts";
import type { ExportSource } from "./export-source.ts";
import type { ImportMark } from "./import-mark.ts";
import { openExportSource } from "./open-export-source.ts";
import { type AdoptedLineage, openRedisStore, type RedisStoreTuning } from "./redis/open-redis-store.ts";
import { type RedisAccess, refuseUnfitAccess } from "./redis/redis-access.ts";
import { createSqliteStore } from "./sqlite/sqlite-store.ts";
import { createStateFile, type StateFile } from "./state-file.ts";

export interface OpenStoreOptions {
  /** redis://…, redis+sentinel://…, redis+cluster://…, the same with rediss, or sqlite:///absolute/path */
  readonly url: string;
  /** Another identity at the same Redis, which may load functions and CONFIG GET; absent = the first one tries. */
  readonly migrateUrl?: string;
  readonly access?: RedisAccess;
  readonly cell: string;
  readonly stateDir: string;
  readonly allowVolatile: boolean;
  /** The operator's word that the store is durable, where nobody may CONFIG GET. */
  readonly declaredDurable: boolean;
  readonly log: Logger;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly signal: AbortSignal;
  readonly tuning?: RedisStoreTuning;
  /** For a backup that is put into an empty store: whose data it is. Nothing is granted from it before it was vetted. */
  readonly adopt?: AdoptedLineage;
  /** What this release reads; others in tests, which are those of another release. */
  readonly formats?: StoreFormats;
}

export type OpenedStore = Store & {
  readonly importMark: ImportMark;
  /** For a backup while it is in use; to be closed by whoever asked. */
  exportSource(): Promise<ExportSource>;
};

/** The store that the address names, checked and ready. A store that cannot be used as it is rejects with a ConfigError. */
export const openStore = async (options: OpenStoreOptions): Promise<OpenedStore> => {
  const scheme = /^(\w+)(?:\+(?:sentinel|cluster))?:\/\//.exec(options.url)?.[1];
  const { access = {}, migrateUrl } = options;
  refuseUnfitAccess([options.url, ...(migrateUrl === undefined ? [] : [migrateUrl])], access);
  if (scheme === "sqlite") return openSqlite(options);
  if (scheme === "redis" || scheme === "rediss") {
    const store = await openRedisStore({
      formats: readableFormats,
      ...options,
      access,
      identity: createStateFile(options.stateDir, "store-cluster-uid"),
    });
    const { random } = options.ids;
    return { ...store, exportSource: () => openExportSource({ ...options, random }) };
  }
  // The address is not repeated: it may hold a password.
  throw new ConfigError([
    {
      field: "store",
      description:
        "is none of redis://…, redis+sentinel://…, redis+cluster://…, the same with rediss, and sqlite:///absolute/file",
    },
  ]);
};

/** Agrees with no file: what is put into one now is vetted like the file of another controller. */
const strangeMarks: StateFile = {
  path: "",
  read: () => JSON.stringify({ current: "a backup" }),
  write: () => undefined,
};

const openSqlite = ({
  url,
  stateDir,
  clock,
  ids,
  log,
  adopt,
  formats = readableFormats,
}: OpenStoreOptions): OpenedStore => {
  const file = url.slice("sqlite://".length);
  if (!path.isAbsolute(file))
    throw new ConfigError([{ field: "store", description: `needs an absolute path: sqlite:///${file}` }]);
  const store = createSqliteStore({
    file,
    now: () => clock.now(),
    uuid: () => ids.uuid(),
    formats,
    marks: adopt === undefined ? createStateFile(stateDir, "store-mark") : strangeMarks,
    ...(adopt === undefined ? {} : { adopt }),
  });
  if (!store.accepted && adopt === undefined)
    log.warn("the store file is not the one that this controller left: nothing is granted until it is vetted", {
      file,
    });
  return store;
};
