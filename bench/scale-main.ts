/**
 * node scale-main.ts REDIS STATE_DIR VOLUMES NODES: one controller over what stands in that Redis, with so many nodes and a plugin that answers at
 * once, so that what is measured is the controller alone.
 */

import { createNodeStore } from "@holdfast/controller/nodes/node-store";
import { systemClock } from "@holdfast/shared/async/clock";
import { serveApi } from "../test/support/controller/served-api.ts";
import { createWorld } from "../test/support/controller/world.ts";
import { nodeName, takenVolume } from "./scale-load.ts";
import { openBenchStore } from "./support/bench-store.ts";

const [url = "", stateDir = "", volumes = "0", nodes = "0"] = process.argv.slice(2);
const names = Array.from({ length: Number(nodes) }, (_, i) => nodeName(i));
const store = await openBenchStore(url, stateDir);
// What the hosts are told to have counts as start, too: they have it before a controller asks them.
const mounted = Array.from({ length: Number(volumes) }, (_, index) => takenVolume(index, names.length));
const begun = performance.now();
const world = await createWorld({ nodes: names, store, mounted });
const records = await createNodeStore({
  ...{ store, clock: systemClock, signal: new AbortController().signal },
  ids: { uuid: () => "", random: Math.random },
}).all();
const startMs = performance.now() - begun;
// What a start takes up in the background is over before anybody is timed.
await world.reconciler.idle();
const api = await serveApi(world);
process.stdout.write(
  `${JSON.stringify({ message: "ready", address: api.address, startMs, nodesRead: records.length })}\n`,
);
process.once("SIGTERM", () => process.exit(0));
