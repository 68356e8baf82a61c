import { randomUUID } from "node:crypto";
import type { Store } from "@holdfast/controller/ports";
import { openStore } from "@holdfast/controller/store/open-store";
import { systemClock } from "@holdfast/shared/async/clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { vetAnew } from "../../services/controller/src/store/vet-anew.ts";

/** A store of the bench, vetted: what is measured begins where a controller may grant. */
export const openBenchStore = async (url: string, stateDir: string): Promise<Store> => {
  const store = await openStore({
    url,
    cell: "bench",
    stateDir,
    allowVolatile: false,
    declaredDurable: false,
    log: createMemoryLogger(),
    clock: systemClock,
    ids: { uuid: randomUUID, random: Math.random },
    signal: new AbortController().signal,
  });
  await vetAnew(store);
  return store;
};
