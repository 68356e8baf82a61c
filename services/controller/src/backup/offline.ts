/** What the controller's program does besides serving: a backup, its way back, and the migration of a Redis. Needs no running controller. */
import { createReadStream } from "node:fs";
import { open, rename } from "node:fs/promises";
import { createInterface } from "node:readline";
import { systemClock } from "@holdfast/shared/async/clock";
import { ConfigError } from "@holdfast/shared/config/config-error";
import type { Logger } from "@holdfast/shared/log/logger";
import type { PlacedRecord, StoredRecord } from "../domain/store-types.ts";
import type { Ids } from "../ports.ts";
import { openExportSource } from "../store/open-export-source.ts";
import { openStore } from "../store/open-store.ts";
import { readExport, writeExport } from "./export-file.ts";
import { importRecords } from "./import-records.ts";

export const offlineCommands = ["export", "import", "migrate"] as const;
export type OfflineCommand = (typeof offlineCommands)[number];

export interface OfflineSettings {
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
  cell: settings.cell,
  stateDir: settings.stateDir,
  allowVolatile: settings.allowVolatileStore,
  declaredDurable: settings.storeDurable,
  log,
  clock: systemClock,
  ids,
  signal,
});

/** A backup without a record that is there would be one in which it is absent: no file is made. */
async function* soundRecords(
  records: AsyncIterable<PlacedRecord>,
  judge: OfflineOptions["judge"],
): AsyncGenerator<PlacedRecord> {
  for await (const record of records) {
    judge({ ...record, rev: 1 });
    yield record;
  }
}

/** The file appears whole or not at all. */
const exportTo = async (options: OfflineOptions, path: string): Promise<void> => {
  const { settings, ids, log, say } = options;
  const source = await openExportSource({
    url: settings.store,
    migrateUrl: settings.storeMigrate,
    cell: settings.cell,
    log,
    clock: systemClock,
    random: ids.random,
  });
  try {
    const file = await open(`${path}.part`, "w", 0o600);
    try {
      const at = new Date(systemClock.now()).toISOString();
      const head = { cell: settings.cell, ...source.identity, at };
      const { records, bytes } = await writeExport(
        head,
        soundRecords(source.records(), options.judge),
        async (text) => void (await file.write(text)),
      );
      await file.sync();
      await rename(`${path}.part`, path);
      say(`${path}: ${records} records of cell ${settings.cell}, ${bytes} bytes, generation ${source.identity.gen}`);
    } finally {
      await file.close();
    }
  } finally {
    await source.close();
  }
};

const importFrom = async (options: OfflineOptions, path: string): Promise<void> => {
  const { say } = options;
  const lines = createInterface({ input: createReadStream(path), crlfDelay: Number.POSITIVE_INFINITY });
  const file = await readExport(lines);
  const { clusterUid, gen, at, cell } = file.head;
  say(`${path}: ${file.records.length} records of cell ${cell}, made ${at}; its checksum holds`);
  const store = await openStore({ ...opening(options), adopt: { clusterUid, gen } });
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
    const { clusterUid, format, gen } = await store.identity();
    options.say(
      `the ${store.kind} store of cell ${options.settings.cell} is ready: installation ${clusterUid}, format ${format}, generation ${gen}`,
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
  path: string | undefined,
  options: OfflineOptions,
): Promise<void> => {
  if (command === "migrate") return await migrateStore(options);
  if (path === undefined)
    throw new ConfigError([{ field: command, description: `needs a file: ${command} /path/to/holdfast.export` }]);
  return await (command === "export" ? exportTo(options, path) : importFrom(options, path));
};
