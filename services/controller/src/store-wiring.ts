/** A part of the composition root: the store, open until everything that writes to it has ended. */
import path from "node:path";
import type { Lifecycle } from "@holdfast/shared/lifecycle";
import type { Metrics } from "@holdfast/shared/metrics";
import type { ControllerConfig } from "./config.ts";
import { timedCommits } from "./controller-metrics.ts";
import { type OpenedStore, type OpenStoreOptions, openStore } from "./store/open-store.ts";
import { accessOf } from "./store/redis/redis-access.ts";

export interface StoreParts extends Pick<OpenStoreOptions, "clock" | "ids" | "log" | "signal"> {
  readonly metrics: Metrics;
  readonly config: ControllerConfig;
  readonly lifecycle: Pick<Lifecycle, "start">;
}

export const wireStore = async ({
  config,
  lifecycle,
  metrics,
  clock,
  ids,
  log,
  signal,
}: StoreParts): Promise<OpenedStore> => {
  const store = await openStore({
    url: config.store ?? `sqlite://${path.join(config.stateDir, "store.db")}`,
    ...(config.storeMigrate === undefined ? {} : { migrateUrl: config.storeMigrate }),
    access: accessOf(config),
    cell: config.cell,
    stateDir: config.stateDir,
    allowVolatile: config.allowVolatileStore,
    declaredDurable: config.storeDurable,
    clock,
    ids,
    log,
    signal,
  });
  await lifecycle.start("store", () => () => store.close());
  return timedCommits(metrics, store);
};
