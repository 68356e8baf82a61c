/** No secret gets out: each place where one could is first shown to yield a text in each form, and then holds none of a whole life. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { messageTypes } from "@holdfast/shared/gen/redacted-fields";
import { afterAll, beforeAll, describe, expect, it, test } from "vitest";
import { type OtlpReceiver, startOtlpReceiver } from "../harness/otlp-receiver.ts";
import { formsOf, plantedIn, privateHits, secretHits, thereOf } from "./forms.ts";
import {
  carriedOver,
  carriedTo,
  coveredFields,
  markedFields,
  ownFields,
  ownSettings,
  secretSettings,
} from "./secret-fields.ts";
import { liveWithSecrets } from "./secret-life.ts";
import { type SecretWorld, startSecretWorld } from "./secret-world.ts";
import { planting, type Sink, sinksWith } from "./sinks.ts";
import { seenOfPlanter } from "./start-planter.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

test("every field that the descriptors mark as secret has a canary, and a new one would lack it", () => {
  expect(coveredFields()).toEqual(markedFields());
  const grown = { ...messageTypes, "holdfast.v1.New": { redacted: ["password"], messages: {}, maps: {} } };
  expect(markedFields(grown)).not.toEqual(coveredFields());
  for (const field of Object.values(ownFields))
    if ("methods" in field) for (const method of field.methods) expect(carriedTo).toHaveProperty(method);
});

test("every setting that is told to be secret has one too", () => {
  expect(new Set(secretSettings())).toEqual(new Set(Object.keys(ownSettings)));
});

let traces: OtlpReceiver;
let sinks: readonly Sink[];

beforeAll(async () => {
  if (!root) return;
  traces = await startOtlpReceiver();
  const dir = await mkdtemp(path.join(tmpdir(), "hf-planter-"));
  sinks = sinksWith(await seenOfPlanter(dir, planting(traces.endpoint)));
  await rm(dir, { recursive: true, force: true });
});
afterAll(() => traces?.close());

describe.skipIf(!root).each(["SQLite", "Redis"] as const)("over %s,", (store) => {
  let world: SecretWorld;

  beforeAll(async () => {
    world = await startSecretWorld(store, traces);
  });
  afterAll(() => world?.stop());

  it("what is planted in a sink is found there, raw and in base64, hex, URL and JSON", async () => {
    for (const sink of sinks) {
      const planted = formsOf(plantedIn(sink.name));
      const found = (await sink.plant(world, planted)).flatMap(([, place]) => thereOf(place, planted));
      expect(new Set(found), sink.name).toEqual(new Set(planted));
    }
  });

  it("[I10] the secrets of a whole life reach the plugin, and stand in none of these sinks, also when the plugin repeats them", async () => {
    await liveWithSecrets(world);
    const seen = await world.cluster.backend.client.record();
    const carried = seen.filter(({ request }) => JSON.stringify(request, big).includes('"token"]'));
    const met = carriedOver(store)
      .map(([method]) => method)
      .sort();
    expect([...new Set(carried.map(({ method }) => method))].sort()).toEqual(met);
    const withTokens = seen.filter(({ request }) => JSON.stringify(request, big).includes('serviceAccount.tokens"'));
    expect(new Set(withTokens.map(({ method }) => method))).toEqual(new Set(["NodePublishVolume"]));
    for (const sink of sinks) {
      const places = await sink.read(world);
      const shown = sink.shows(world);
      if (shown === undefined)
        expect(
          places.map(([name]) => name),
          sink.name,
        ).toEqual([]);
      else
        expect(
          places.flatMap(([, place]) => thereOf(place, [shown])),
          sink.name,
        ).toContain(shown);
      for (const [name, place] of places) {
        expect(secretHits(place), `${name} of ${sink.name}`).toEqual([]);
        if (sink.keeps !== true) expect(privateHits(place), `${name} of ${sink.name}`).toEqual([]);
      }
    }
  });
});

const big = (_key: string, value: unknown): unknown => (typeof value === "bigint" ? `${value}` : value);
