import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createPluginConnection, type PluginConnection } from "@holdfast/csi/plugin-connection";
import { systemClock } from "@holdfast/shared/async/clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { createTracing } from "@holdfast/shared/tracing";
import { createSimPlugin, type SimPlugin, type SimPluginOptions } from "@holdfast/sim-plugin/sim-plugin";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { ListedVolume, ListingPage } from "../domain/listing.ts";
import type { Outcome } from "../domain/outcome.ts";
import type { BackendListings } from "../ports.ts";
import { createListingCalls } from "./listing-calls.ts";
import type { PluginCalls } from "./plugin-calls.ts";

/** The listing calls against the simulated plugin, over its socket. */
let dir: string;
let stop: AbortController;
let sim: SimPlugin;
let connection: PluginConnection;
let listings: BackendListings;

const start = async (options: Partial<SimPluginOptions> = {}): Promise<void> => {
  const socket = path.join(dir, "csi.sock");
  sim = await createSimPlugin({ role: "controller", socket, ...options });
  const common = { log: createMemoryLogger(), tracing: createTracing("test"), clock: systemClock };
  connection = createPluginConnection({ socketPath: socket, role: "controller", signal: stop.signal, ...common });
  const facts = await connection.whenReady(stop.signal);
  const { call, stream } = connection;
  const instance = { id: "only", at: { node: "", socket }, facts, rests: false, call, stream };
  const calls: Pick<PluginCalls, "instance" | "run" | "every"> = {
    every: () => ({ here: [instance], missing: [] }),
    instance: ({ plugin }) => (plugin === "sim" ? instance : undefined),
    run: (_plugin, _secretRef, send) => send(instance, {}, undefined),
  };
  listings = createListingCalls(calls as PluginCalls, () => "it is away");
};

beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-list-"));
  stop = new AbortController();
});
afterEach(async () => {
  stop.abort(new Error("over"));
  await connection.close();
  await sim.close();
  await rm(dir, { recursive: true, force: true });
});

const pageOf = (outcome: Outcome<ListingPage<ListedVolume>>): ListingPage<ListedVolume> => {
  if (outcome.kind !== "done") throw new Error(outcome.failure.message);
  return outcome.value;
};
const volumes = async (token = "", max = 500) => pageOf(await listings.volumes("sim", { token, max }, stop.signal));

test("what a plugin can tell is known once it was asked, and nothing of one that is away", async () => {
  await start({ capabilities: { without: ["controller.LIST_SNAPSHOTS"] } });
  expect(listings.can("sim")).toMatchObject({ ready: true, volumes: "yes", snapshots: "no", single: "yes" });
  expect(listings.can("none")).toMatchObject({ ready: false, reason: "it is away", volumes: "unknown" });
});

test("[C65] rows come twice, are missing, and pages go on by the plugin's token", async () => {
  await start();
  for (const id of ["a", "b", "c"]) sim.backend.addVolume({ id });
  const first = await volumes("", 2);
  expect(first.entries.map((v) => v.externalId)).toEqual(["a", "b"]);
  expect((await volumes(first.next, 2)).entries.map((v) => v.externalId)).toEqual(["c"]);
  sim.backend.setListing({ repeats: true, hides: ["b"] });
  expect((await volumes()).entries.map((v) => v.externalId)).toEqual(["a", "c", "a", "c"]);
  expect(await listings.volume("sim", "b", stop.signal)).toMatchObject({ kind: "done", value: { externalId: "b" } });
});

test("[O47] a token that is not good any more comes back as ABORTED", async () => {
  await start();
  const page = { token: "made-up", max: 500 };
  expect(await listings.volumes("sim", page, stop.signal)).toMatchObject({ failure: { code: "ABORTED" } });
});

test("[C66] nodes are told with the capability, as the backend says, and not at all without it", async () => {
  await start();
  sim.backend.addVolume({ id: "a" });
  sim.backend.attachBehind("a", "nobody-knows");
  expect((await volumes()).entries[0]?.publishedNodes).toEqual(["nobody-knows"]);
  sim.backend.setListing({ deniesNodes: true });
  expect((await volumes()).entries[0]?.publishedNodes).toEqual([]);
  await connection.close();
  await sim.close();
  await start({ capabilities: { without: ["controller.LIST_VOLUMES_PUBLISHED_NODES"] } });
  sim.backend.addVolume({ id: "a" });
  sim.backend.attachBehind("a", "n1");
  expect((await volumes()).entries[0]?.publishedNodes).toBeUndefined();
});

test("a volume that the backend does not have is told from one that it did not tell of", async () => {
  await start();
  expect(await listings.volume("sim", "none", stop.signal)).toEqual({ kind: "done", value: undefined });
  sim.backend.addVolume({ id: "a" });
  sim.backend.addFault({ method: "ControllerGetVolume", code: "INTERNAL", times: "always" });
  expect((await listings.volume("sim", "a", stop.signal)).kind).not.toBe("done");
});
