import { randomUUID } from "node:crypto";
import { createCommands } from "@holdfast/controller/commands/commands";
import { createChanges } from "@holdfast/controller/records/changes";
import { createCutRecords } from "@holdfast/controller/records/snapshot-records";
import { createVolumeRecords } from "@holdfast/controller/records/volume/volume-records";
import type { World } from "./world.ts";

/** Another controller over the same store. It hears of the first one, and the first one of it, only when the test tells them. */
export const createSecondController = ({ store, clock, nodes, gate, backend, attachLimit, log, secrets }: World) => {
  const ids = { uuid: () => randomUUID(), random: () => 0.5 };
  const signal = new AbortController().signal;
  const deps = { store, clock, ids, issuer: "c2/1", changes: createChanges(), signal };
  const records = createVolumeRecords({ ...deps, attachLimit, log });
  const cuts = createCutRecords(deps);
  const parts = { records, cuts, nodes, plugins: backend, gate, secrets, feed: store };
  return { records, commands: createCommands({ ...parts, clock, ids }) };
};
