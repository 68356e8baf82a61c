/** What the controller's program does besides serving: a backup, its way back, and the migration of a Redis. Needs no running controller. */
import path from "node:path";
import { systemClock } from "@holdfast/shared/async/clock";
import { ConfigError } from "@holdfast/shared/config/config-error";
import type { Logger } from "@holdfast/shared/log/logger";
import type { StoredRecord } from "../domain/store-types.ts";
import type { Ids } from "../ports.ts";
import { openExportSource } from "../store/open-export-source.ts";
import { openStore } from "../store/open-store.ts";
import { type AccessSettings, accessOf } from "../store/redis/redis-access.ts";
import { createBackupFiles } from "./backup-files.ts";
import { readExport } from "./export-file.ts";
import { importRecords } from "./import-records.ts";
import { writeBackup } from "./write-backup.ts";

export const offlineCommands = ["export", "import", "migrate"] as const;
export type OfflineCommand = (typeof offlineCommands)[number];

export interface OfflineSettings extends AccessSettings {
  readonly store: string;
  readonly storeMigrate: string | undefined;
  readonly storeDurable: boolean;
  readonly allowVolatileStore: boolean;
  readonly cell: string;
  readonly stateDir: string;
}

export interface OfflineOptions {
  readonly settings: OfflineSettings;
  readonly ids: Ids;
  readonly log: Logger;
  readonly say: (line: string) => void;
  readonly signal: AbortSignal;
  /** Throws for a record that its users could not read. */
  readonly judge: (record: StoredRecord) => void;
}

const opening = ({ settings, ids, log, signal }: OfflineOptions) => ({
  url: settings.store,
  ...(settings.storeMigrate === undefined ? {} : { migrateUrl: settings.storeMigrate }),
  access: accessOf(settings),
  cell: settings.cell,
  stateDir: settings.stateDir,
  allowVolatile: settings.allowVolatileStore,
  declaredDurable: settings.storeDurable,
  log,
  clock: systemClock,
  ids,
  signal,
});

const exportTo = async (options: OfflineOptions, file: string): Promise<void> => {
  const { settings, ids, log, say, judge } = options;
  const { store: url, storeMigrate: migrateUrl, cell } = settings;
  const access = accessOf(settings);
  const source = await openExportSource({ url, migrateUrl, access, cell, log, clock: systemClock, random: ids.random });
  try {
    const files = createBackupFiles(path.dirname(file));
    const name = path.basename(file);
    const { records, bytes } = await writeBackup({ source, files, name, cell, at: systemClock.now(), judge });
    say(`${file}: ${records} records of cell ${cell}, ${bytes} bytes, generation ${source.identity.gen}`);
  } finally {
    await source.close();
  }
};

const importFrom = async (options: OfflineOptions, from: string): Promise<void> => {
  const { say } = options;
  const lines = createBackupFiles(path.dirname(from)).lines(path.basename(from));
  const file = await readExport({ file: from, lines });
  const { clusterUid, gen, at, cell } = file.head;
  say(`${from}: ${file.records.length} records of cell ${cell}, made ${at}; its checksum holds`);
  // What was granted since the backup was made has the generation of the backup: a grant of the restored store has another epoch.
  const store = await openStore({ ...opening(options), adopt: { clusterUid, gen: gen + 1 } });
  try {
    const identity = await store.identity();
    if (identity.clusterUid !== clusterUid)
      throw new ConfigError([
        {
          field: "HOLDFAST_STORE",
          description: `holds installation ${identity.clusterUid}, the export is of ${clusterUid}`,
        },
      ]);
    let told = 0;
    const { written, records } = await importRecords({
      store,
      mark: store.importMark,
      file,
      progress: (done, all) => {
        if (done < all && done - told < 5_000) return;
        told = done;
        say(`${done} of ${all}`);
      },
    });
    say(`${records} records are there, ${written} of them written now.`);
    say("Start the controllers: nothing is granted until every node has told what it holds (holdfast repair vet).");
  } finally {
    await store.close();
  }
};

const migrateStore = async (options: OfflineOptions): Promise<void> => {
  const store = await openStore(opening(options));
  try {
    const { clusterUid, format, vetting } = await store.identity();
    options.say(
      `the ${store.kind} store of cell ${options.settings.cell} is ready: installation ${clusterUid}, format ${format}, generation ${vetting.gen}`,
    );
  } finally {
    await store.close();
  }
};

export const isOfflineCommand = (word: string | undefined): word is OfflineCommand =>
  offlineCommands.some((known) => known === word);

/** Throws in words what cannot be done. */
export const runOffline = async (
  command: OfflineCommand,
  file: string | undefined,
  options: OfflineOptions,
): Promise<void> => {
  if (command === "migrate") return await migrateStore(options);
  if (file === undefined)
    throw new ConfigError([{ field: command, description: `needs a file: ${command} /path/to/holdfast.export` }]);
  return await (command === "export" ? exportTo(options, file) : importFrom(options, file));
};
