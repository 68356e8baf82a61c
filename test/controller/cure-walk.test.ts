/**
 * Every reason of blocked.ts and its cure: the block comes about, the commands that it prints are run as they are printed, what its words
 * ask of a person is done, and the block is gone. Each command of a block is run by one of its rows; a row for each way that the words
 * offer.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { blockedWays, minute, type WaysReason } from "../support/controller/blocked-ways.ts";
import { type ServedApi, serveApi } from "../support/controller/served-api.ts";
import { linesOf, typedIn } from "../support/controller/typed-lines.ts";
import { createWorld, type World } from "../support/controller/world.ts";

let world: World;
let api: ServedApi;
beforeEach(async () => {
  world = await createWorld();
  api = await serveApi(world);
});
afterEach(async () => {
  await api.close();
  await world.close();
});

const typed = (line: string, files: Readonly<Record<string, string>>) => typedIn(world, api.address, line, files);

interface Cure {
  readonly reason: WaysReason;
  /** Which of the ways that the words offer; the command that does it, or what a person does without one. */
  readonly way: string;
  /** What the words ask of a person outside of the command line. */
  readonly hands?: () => Promise<unknown> | unknown;
  /** The printed command that this row runs, beside those that only show something. */
  readonly runs?: RegExp;
  /** A value for what a person has to choose. */
  readonly fill?: (line: string) => string;
  readonly files?: () => Promise<Readonly<Record<string, string>>>;
}

const well = () => {
  world.backend.chance(undefined);
  world.agents.chance(undefined);
};
const agentBack = () => {
  world.agents.silence("n1", false);
  world.nodes.set("n1", {}, "alive");
};
const cures: readonly Cure[] = [
  { reason: "CREATE_UNCERTAIN", way: "forgotten", runs: /repair forget-volume/ },
  { reason: "INCOMPATIBLE", way: "removed at the backend", hands: well },
  { reason: "CREDENTIALS_REFUSED", way: "secret corrected", hands: well },
  { reason: "PLUGIN_REFUSED", way: "the plugin's message heeded", hands: well },
  { reason: "NOT_AT_BACKEND", way: "restored", hands: well },
  { reason: "NOT_AT_BACKEND", way: "released", runs: /claim release/ },
  { reason: "NOT_AT_BACKEND", way: "forgotten", hands: () => released("job"), runs: /repair forget-volume/ },
  { reason: "FOREIGN_ATTACHMENT", way: "removed", hands: well, runs: /repair scan/ },
  { reason: "ATTACHED_ELSEWHERE", way: "released", runs: /claim release first/ },
  { reason: "STORAGE_TAKEN", way: "plugin mended", hands: () => mendTwin() },
  { reason: "DETACH_UNPROVEN", way: "asserted", runs: /repair assert-detached/ },
  { reason: "MOUNT_HELD", way: "process ended", hands: well },
  { reason: "PERMIT_REFUSED", way: "released", runs: /claim release/ },
  { reason: "NODE_REPLACED", way: "abandoned", runs: /repair abandon-claim/ },
  { reason: "NODE_SILENT", way: "agent started", hands: agentBack },
  { reason: "NODE_SILENT", way: "abandoned", runs: /repair abandon-claim/ },
  { reason: "FOREIGN_HOLD", way: "abandoned", runs: /repair abandon-claim/ },
  { reason: "PLUGIN_HANGS", way: "plugin restarted" },
  { reason: "CALL_MAY_BE_OPEN", way: "instance started", hands: () => world.backend.setFacts({ ready: true }) },
  { reason: "CALL_MAY_BE_OPEN", way: "taken over", runs: /repair take-over/ },
  { reason: "CALL_BARRED", way: "cleared", runs: /repair clear-bar/ },
  { reason: "EXPAND_IN_USE", way: "released", hands: () => world.release("job") },
  {
    reason: "EXPAND_UNCERTAIN",
    way: "the size that it has",
    runs: /volume expand/,
    fill: (line) => line.replace("<size>", "5000000"),
  },
  {
    reason: "MODIFY_UNCERTAIN",
    way: "a value that the plugin takes",
    runs: /volume modify/,
    fill: (line) => line.replace("<key>=<value>", "tier=silver"),
  },
  {
    reason: "PLUGIN_AMBIGUOUS",
    way: "profile",
    runs: /plugin profile/,
    files: async () => ({ "<file>": "reach: all\n" }),
  },
  { reason: "PLACE_UNKNOWN", way: "started everywhere", hands: well },
  { reason: "TOKENS_UNSIGNED", way: "key given", hands: well },
  { reason: "NOT_PROVEN", way: "registered anew", runs: /volume (?:deregister|register)/, files: () => registration() },
];

const released = async (workload: string): Promise<void> => {
  await world.release(workload);
  await world.pass(minute, 5_000);
};

/** Its answers are of its own storage from now on. */
const mendTwin = async (): Promise<void> => {
  const twin = await world.volume("twin");
  world.backend.keep(twin.name, "ext-twin");
};

const registration = async (): Promise<Readonly<Record<string, string>>> => {
  const { externalId, plugin } = await world.volume("data");
  const lines = [
    ...["id: data", `plugin: ${plugin}`, `external_id: ${externalId}`],
    ...["capabilities:", "  - attachment_mode: FILE_SYSTEM", "    access_mode: SINGLE_NODE_WRITER"],
  ];
  return { "<file>": `${lines.join("\n")}\n` };
};

const stuckOf = async (id: string, reason: string) => {
  const none = { namespace: "", plugin: "", node: "", reasons: [reason] };
  const { items } = await world.repair.listStuck(none, { size: 50, after: undefined });
  return items.filter(({ volume }) => volume.id === id).map(({ blocked }) => blocked);
};

const showsOnly = /holdfast (?:volume explain|plugin status|node status)/;
/** Walked over real processes: fence.e2e.test.ts, agent-reborn.e2e.test.ts. */
const elsewhere = /holdfast node (?:fence|admit)/;
describe("the cure of", () => {
  test.each(cures)("$reason: $way", async ({ reason, hands, runs, fill = (line) => line, files }) => {
    const id = await blockedWays(world)[reason]();
    await world.idle();
    const [blocked] = await stuckOf(id, reason);
    expect(blocked, "it is blocked").toBeDefined();
    const written = (await files?.()) ?? {};
    const printed = linesOf(blocked?.clearWith ?? "");
    for (const line of printed.filter((one) => showsOnly.test(one))) await typed(line, written);
    await hands?.();
    const chosen = printed.filter((line) => runs?.test(line));
    expect(runs === undefined || chosen.length > 0, `${blocked?.clearWith} has ${String(runs)}`).toBe(true);
    for (const line of chosen) await typed(fill(line), written);
    await world.pass(5 * minute, 10_000);
    expect(await stuckOf(id, reason), "it is cleared").toEqual([]);
    // Total: what a block prints is run by one of its rows.
    const rows = cures.filter((row) => row.reason === reason);
    for (const line of printed)
      expect(
        showsOnly.test(line) || elsewhere.test(line) || rows.some((row) => row.runs?.test(line)),
        `a row runs ${line}`,
      ).toBe(true);
  });

  test("every reason is walked", () => {
    const walked = new Set(cures.map(({ reason }) => reason));
    const all = Object.keys(blockedWays({} as World));
    // NODE_PENDING is admitted by a life that registers: over real agents in agent-reborn.e2e.test.ts.
    expect(all.filter((reason) => !walked.has(reason as WaysReason))).toEqual(["NODE_PENDING"]);
  });
});
