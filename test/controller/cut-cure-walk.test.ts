/** Every reason of snapshot-blocked.ts and its cure, of a snapshot and of a group, walked as cure-walk.test.ts walks those of volumes. */
import { expect, onTestFinished, test } from "vitest";
import { type CutWayKind, type CutWaysReason, cutBlockedWays, seats } from "../support/controller/cut-blocked-ways.ts";
import { type ServedCuts, serveCuts } from "../support/controller/served-cuts.ts";
import { createSnapshotWorld, type SnapshotWorld } from "../support/controller/snapshot-world.ts";
import { linesOf, typedIn } from "../support/controller/typed-lines.ts";

interface Cure {
  readonly way: string;
  /** What the words ask of a person outside of the command line. */
  readonly hands?: (world: SnapshotWorld) => unknown;
  /** The printed command that this row runs, beside those that only show something. */
  readonly runs?: RegExp;
}

const minute = 60_000;
const kinds = ["snapshot", "group"] as const;

const well = (world: SnapshotWorld) => {
  world.transport.chance(undefined);
  world.transport.alter(undefined);
};
const everywhere = (world: SnapshotWorld) => world.setReach(undefined);
const bothRun = (world: SnapshotWorld) => {
  world.gates.gateOf(seats[0]).thaw();
  world.setSeats(...seats);
};

/** Total: a new reason does not compile until somebody walks its cure. */
const cures: Readonly<Record<CutWaysReason, readonly Cure[]>> = {
  INCOMPATIBLE: [{ way: "removed at the backend", hands: well }],
  CREDENTIALS_REFUSED: [{ way: "secret corrected", hands: well }],
  PLUGIN_REFUSED: [
    { way: "the plugin's message heeded", hands: well },
    { way: "deleted", runs: /snapshot delete(?:-group)? (?!.*--forget)/ },
  ],
  CREATE_UNCERTAIN: [{ way: "forgotten", runs: /--forget/ }],
  BACKEND_GROUP: [{ way: "that group deleted", runs: /--forget/ }],
  PLUGIN_AMBIGUOUS: [{ way: "every instance reaches every volume", hands: everywhere }],
  PLACE_UNKNOWN: [{ way: "started everywhere", hands: everywhere }],
  PLUGIN_HANGS: [{ way: "plugin restarted", hands: well }],
  CALL_MAY_BE_OPEN: [
    { way: "instance started", hands: bothRun },
    { way: "taken over", runs: /repair take-over/ },
  ],
  CALL_BARRED: [
    { way: "instance started", hands: bothRun },
    { way: "cleared", runs: /repair clear-bar/ },
  ],
};

const rows = (Object.keys(cures) as CutWaysReason[]).flatMap((reason) =>
  kinds
    // Only a snapshot goes with a group of the backend's own.
    .filter((kind) => kind === "snapshot" || reason !== "BACKEND_GROUP")
    .flatMap((kind) => cures[reason].map((cure) => ({ reason, kind, ...cure }))),
);

const showsOnly = /holdfast (?:snapshot (?:group-)?status|repair scan)/;
/** Over the API of plugins, which this world has not: cure-walk.test.ts. */
const elsewhere = /holdfast plugin (?:profile|status)/;

const blockedX = async (repair: ServedCuts["repair"], kind: CutWayKind, reason: CutWaysReason) => {
  const filter = { namespace: "", plugin: "", node: "", reasons: [reason] };
  const { items } = await repair.listStuck(filter, { size: 50, after: undefined });
  return items.find(({ of, volume }) => of === kind && volume.id === "x")?.blocked;
};

test.each(rows)("the cure of $reason of a $kind: $way", async ({ reason, kind, hands, runs }) => {
  const world = await createSnapshotWorld({ bars: () => reason !== "CALL_MAY_BE_OPEN" });
  onTestFinished(() => world.close());
  const api = await serveCuts(world);
  onTestFinished(() => api.close());
  await world.makeVolume("data", { capacity: { required: 0, limit: 0 } });
  await cutBlockedWays(world, kind)[reason]();
  const blocked = await blockedX(api.repair, kind, reason);
  expect(blocked, "it is blocked").toBeDefined();
  const printed = linesOf(blocked?.clearWith ?? "");
  for (const line of printed.filter((one) => showsOnly.test(one))) await typedIn(world, api.address, line);
  await hands?.(world);
  const chosen = printed.filter((line) => runs?.test(line));
  expect(runs === undefined || chosen.length > 0, `${blocked?.clearWith} has ${String(runs)}`).toBe(true);
  for (const line of chosen) await typedIn(world, api.address, line);
  await world.pass(5 * minute, 10_000);
  expect(await blockedX(api.repair, kind, reason), "it is cleared").toBeUndefined();
  // Total: what a block prints is run by one of its rows.
  for (const line of printed)
    expect(
      showsOnly.test(line) || elsewhere.test(line) || cures[reason].some((row) => row.runs?.test(line)),
      `a row runs ${line}`,
    ).toBe(true);
});
