/** A part of the composition root: the backups that the controller writes by itself, and what /metrics tells of them. */
import type { Clock } from "@holdfast/shared/async/clock";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Metrics } from "@holdfast/shared/metrics";
import { createBackupFiles } from "./backup/backup-files.ts";
import { type BackupKeeper, createBackupKeeper } from "./backup/backup-keeper.ts";
import type { ControllerConfig } from "./config.ts";
import type { StoreGate } from "./ports.ts";
import { judgeRecord } from "./records/shape/record-readers.ts";
import type { OpenedStore } from "./store/open-store.ts";

export interface BackupWiring {
  readonly config: Pick<ControllerConfig, "backup" | "backupInterval" | "backupKeep" | "cell">;
  readonly store: Pick<OpenedStore, "exportSource" | "identity">;
  readonly gate: StoreGate;
  readonly controllerId: string;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

const measureBackups = (metrics: Metrics, keeper: BackupKeeper, intervalMs: number): void => {
  metrics.gauge({
    name: "holdfast_backup_age_seconds",
    help: "Time since the last good backup of this controller, or since its start when it has none.",
    collect: (gauge) => gauge.set({}, keeper.standing().ageMs / 1000),
  });
  metrics.gauge({
    name: "holdfast_backup_interval_seconds",
    help: "How often a backup is to be written.",
    collect: (gauge) => gauge.set({}, intervalMs / 1000),
  });
  metrics.gauge({
    name: "holdfast_backup_failures",
    help: "Backups that could not be made since the start.",
    collect: (gauge) => gauge.set({}, keeper.standing().failures),
  });
};

/** Goes on until the signal, where backups are wanted; rejects then. */
export const keepBackups = async (wiring: BackupWiring): Promise<void> => {
  const { config, store, gate, controllerId, metrics, clock, log, signal } = wiring;
  const { backup: directory, backupInterval: intervalMs, backupKeep: keep, cell } = config;
  if (directory === undefined) return;
  const { clusterUid } = await store.identity();
  const keeper = createBackupKeeper({
    files: createBackupFiles(directory),
    openSource: store.exportSource,
    gate,
    owner: { cell, controllerId, clusterUid },
    intervalMs,
    keep,
    judge: judgeRecord,
    clock,
    log,
    signal,
  });
  measureBackups(metrics, keeper, intervalMs);
  await keeper.run();
};
