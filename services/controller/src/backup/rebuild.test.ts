import { createManualClock, type ManualClock } from "@holdfast/shared/async/manual-clock";
import { beforeEach, describe, expect, test } from "vitest";
import type { Inventory } from "../domain/claim/permit.ts";
import type { ListedVolume, ListingPage } from "../domain/listing.ts";
import type { Outcome } from "../domain/outcome.ts";
import type { Rebuilt } from "../domain/repair/rebuild.ts";
import { nodeRecord } from "../domain/testing/record-fixtures.ts";
import type { ControllerPluginFacts } from "../ports.ts";
import { gatherRebuild, type RebuildDeps } from "./rebuild.ts";

const permit = {
  accessMode: "SINGLE_NODE_WRITER",
  attachmentMode: "FILE_SYSTEM",
  readOnly: false,
  fsType: "",
  nodeEpoch: 1,
  target: "/m",
  mountId: 1,
  releasing: false,
} as const;

const plugin = {
  name: "model",
  version: "1",
  instance: "i",
  role: "NODE",
  health: "HEALTHY",
  healthMessage: "",
  nodeId: "id-n1",
  maxVolumes: 0,
  topology: {},
  capabilities: {},
} as const;

const inventory = (node: string): Inventory => ({
  node,
  journalUid: "journal-1",
  nodeEpoch: 1,
  promisedGen: 4,
  volumes: [
    {
      namespace: "ns",
      volume: node,
      volumeUid: `u-${node}`,
      externalId: `ext-${node}`,
      plugin: "model",
      held: [{ claimUid: "c", workload: "w", alias: "a", epoch: { gen: 1, ctr: 1 }, state: "PUBLISHED", permit }],
    },
  ],
  orphans: [],
});

const page = (next: string, ...ids: readonly string[]): Outcome<ListingPage<ListedVolume>> => ({
  kind: "done",
  value: {
    next,
    entries: ids.map((externalId) => ({
      externalId,
      capacity: 1,
      context: { a: "b" },
      accessible: [],
      sourceSnapshot: "",
      sourceVolume: "",
    })),
  },
});
const broken = (code: string): Outcome<never> => ({
  kind: "unknown",
  failure: { reason: "X", message: `it broke: ${code}`, advice: "again", code },
});

let clock: ManualClock;
let here: string[];
let pages: Outcome<ListingPage<ListedVolume>>[];
let facts: Pick<ControllerPluginFacts, "attaches" | "publishesReadOnly">;
let ready: boolean;
let promised: number;
let strangersMs: number;

beforeEach(() => {
  clock = createManualClock();
  here = ["n1"];
  pages = [page("", "ext-n1")];
  facts = { attaches: "yes", publishesReadOnly: "no" };
  ready = true;
  promised = 0;
  strangersMs = 0;
});

const gathered = (...wanted: readonly string[]): Promise<Rebuilt> => {
  const deps = {
    nodes: { list: () => here.map((name) => ({ record: nodeRecord(name, { plugins: [plugin] }), live: "alive" })) },
    agents: { inventory: async ({ name }: { readonly name: string }) => inventory(name) },
    plugins: { facts: () => facts },
    listings: {
      can: () => ({ ready, reason: ready ? "" : "it is away", volumes: "yes" }),
      volumes: async () => pages.shift() ?? broken("NOTHING"),
    },
    promised: (gen: number) => {
      promised = gen;
    },
    who: "controller/x",
    clock,
    signal: new AbortController().signal,
    say: () => undefined,
  };
  return gatherRebuild(deps as unknown as RebuildDeps, wanted, { nodesMs: 1_000, strangersMs, pluginMs: 1_000 });
};

const outcomes = ({ rows }: Rebuilt): readonly string[] =>
  rows.map(({ outcome, words }) => `${outcome}: ${words.join()}`);

describe("[I1] R2 every node that is named answers, and no other one is there", () => {
  test("a node that does not come is named, and nothing is made", async () => {
    const refused = expect(gathered("n1", "n2")).rejects.toMatchObject({
      reason: "REBUILD_INCOMPLETE",
      metadata: { nodes: "n2" },
    });
    await clock.advance(1_000);
    await refused;
  });

  test("a node that comes in time counts", async () => {
    const made = gathered("n1", "n2");
    await clock.advance(500);
    here.push("n2");
    pages = [page("", "ext-n1", "ext-n2")];
    await clock.advance(500);
    expect((await made).volumes.map(({ id }) => id)).toEqual(["n1", "n2"]);
  });

  test("a node that is there and not named: the list of nodes is not all of them", async () => {
    here.push("n9");
    await expect(gathered("n1")).rejects.toMatchObject({ reason: "REBUILD_INCOMPLETE", metadata: { nodes: "n9" } });
  });
});

test("[I1] R2 a node that is not named is waited for: its agent dials again after a pause of its own", async () => {
  strangersMs = 400;
  const refused = expect(gathered("n1")).rejects.toMatchObject({ metadata: { nodes: "n9" } });
  await clock.advance(200);
  here.push("n9");
  await clock.advance(200);
  await refused;
});

describe("what a plugin lists", () => {
  test("is read to its end, under the generation that agents were promised", async () => {
    pages = [page("more", "ext-9"), page("", "ext-n1")];
    const made = await gathered("n1");
    expect(outcomes(made)[0]).toMatch(/^known again/);
    expect([promised, made.gen]).toEqual([4, 4]);
  });

  test("counts for nothing from before the list began anew", async () => {
    pages = [page("more", "ext-n1"), broken("ABORTED"), page("", "ext-9")];
    expect(outcomes(await gathered("n1"))[0]).toMatch(/^not proven: .*does not list it/);
  });

  test("counts for nothing when it is not read to its end", async () => {
    pages = [page("more", "ext-n1"), broken("INTERNAL")];
    expect(outcomes(await gathered("n1"))[0]).toMatch(/^not proven: .*it broke: INTERNAL/);
  });

  test("is waited for, and is not known of a plugin that does not come", async () => {
    ready = false;
    facts = { attaches: "unknown", publishesReadOnly: "unknown" };
    const made = gathered("n1");
    await clock.advance(1_000);
    expect(outcomes(await made)[0]).toMatch(/^not proven: .*start it.*it is away/);
    expect((await made).volumes[0]?.foreign).toHaveLength(1);
  });
});
