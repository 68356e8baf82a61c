import { type AccessMode, accessModes } from "@holdfast/model/access";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { sample } from "../../../../../test/support/full.ts";
import { callFates } from "../testing/model-backend.ts";
import { publishFates, releaseFates } from "../testing/model-node.ts";
import { plantedFaults } from "../testing/planted-faults.ts";
import { createVolumeWorld, type VolumeWorld } from "../testing/volume-world.ts";
import { type Luck, routes } from "../testing/world-permits.ts";
import { domainRules, type Rules } from "../testing/world-rules.ts";

const seed = 20_260_801;
/** Also the most that a planted fault may take to be seen: then each quick run would see it. */
const quickRuns = 3_000;
const nodes = ["n1", "n2", "n3"] as const;

/** A command is data, so that a sequence can be printed, shrunk and run again. */
type Command = readonly [name: string, run: (world: VolumeWorld) => void];

const at = fc.nat(11);
const node = fc.constantFrom(...nodes);
const mostly = <T>(good: T, all: readonly T[], weight: number): fc.Arbitrary<T> =>
  fc.oneof({ weight, arbitrary: fc.constant(good) }, { weight: all.length, arbitrary: fc.constantFrom(...all) });

/** What can go wrong in one world: a few things of all, often, so that they meet each other. */
interface Trouble {
  readonly call: readonly (typeof callFates)[number][];
  readonly publish: readonly (typeof publishFates)[number][];
  readonly release: readonly (typeof releaseFates)[number][];
}

const troubles: fc.Arbitrary<Trouble> = fc.record({
  call: fc.oneof(
    fc.subarray([...callFates], { minLength: 1, maxLength: 3 }),
    // A refusal after an answer that was lost: the case in which the undo is forgotten most easily.
    fc.constantFrom(["answer-lost", "refused"] as const, ["slow-done", "refused"] as const),
    // And after one that was lost before the attach had to wait.
    fc.constant(["answer-lost", "blocked", "refused"] as const),
  ),
  publish: fc.subarray([...publishFates], { minLength: 1, maxLength: 3 }),
  release: fc.subarray([...releaseFates], { minLength: 1, maxLength: 2 }),
});

const luck = ({ call, publish, release }: Trouble): fc.Arbitrary<Luck> =>
  fc.record({
    call: mostly("done", call, call.length + 1),
    late: fc.boolean(),
    publish: mostly("done", publish, 2 * publish.length),
    release: mostly("done", release, 2 * release.length),
    route: mostly("direct", routes, 6),
  });

const wish = (modes: readonly AccessMode[]) =>
  fc.record(
    {
      workload: fc.constantFrom("w1", "w2", "w3", "w4"),
      aliases: fc.constantFrom(["data"], ["data"], ["data"], ["data", "copy"]),
      node,
      accessMode: fc.constantFrom(...modes),
      attachmentMode: mostly("FILE_SYSTEM" as const, ["FILE_SYSTEM", "BLOCK_DEVICE"] as const, 20),
      readOnly: fc.boolean(),
      queue: mostly(true, [true, false], 4),
      deadlineMs: fc.constantFrom(3_600_000, 3_600_000, 20_000),
      after: fc.constantFrom("w1", "w2"),
    },
    {
      requiredKeys: ["workload", "aliases", "node", "accessMode", "attachmentMode", "readOnly", "queue", "deadlineMs"],
    },
  );

/** `command("x", arbitraries, run)`: named, with its arguments in the name. */
const command = <T>(
  weight: number,
  name: string,
  args: fc.Arbitrary<T>,
  run: (world: VolumeWorld, args: T) => void,
) => ({
  weight,
  arbitrary: args.map((a): Command => [`${name} ${JSON.stringify(a)}`, (world) => run(world, a)]),
});

const commands = (modes: readonly AccessMode[], trouble: Trouble): fc.Arbitrary<Command> => {
  const fate = luck(trouble);
  return fc.oneof(
    command(1, "create", fc.constant(0), (w) => w.create()),
    command(1, "remove", fc.constant(0), (w) => w.remove()),
    command(12, "claim", wish(modes), (w, a) => w.claim(a)),
    command(7, "release", at, (w, a) => w.release(a)),
    command(44, "step", fc.tuple(at, fate, mostly(false, [true], 2)), (w, [a, l, held]) => w.step(a, l, held)),
    command(12, "answer", at, (w, a) => w.answer(a)),
    command(3, "crash", fc.constant(0), (w) => w.crash()),
    command(
      5,
      "deliver",
      fc.tuple(at, fate, fc.record({ again: fc.boolean(), answered: fc.boolean() })),
      (w, [a, l, how]) => w.deliver(a, l, how),
    ),
    command(1, "drop", at, (w, a) => w.drop(a)),
    command(3, "release locally", fc.tuple(node, at, mostly("done", releaseFates, 4)), (w, a) =>
      w.releaseLocally(...a),
    ),
    command(3, "acknowledge", fc.tuple(at, fc.boolean()), (w, a) => w.acknowledge(...a)),
    command(4, "settle the backend", fc.constant(0), (w) => w.settleBackend()),
    command(14, "pass", fc.constantFrom(2_000, 2_000, 5_000, 70_000), (w, a) => w.pass(a)),
    command(2, "reboot", node, (w, a) => w.reboot(a)),
    command(2, "lose journal", node, (w, a) => w.loseJournal(a)),
    command(4, "inspect", node, (w, a) => w.inspect(a)),
    command(1, "node ready", fc.tuple(node, fc.boolean()), (w, a) => w.setReady(...a)),
    command(1, "gate", fc.boolean(), (w, a) => w.setGate(a)),
  );
};

/** What a run has to have come across, or it proves little: each live cell of the claim machine, and answers that come too late. */
const expectedCells = [
  "QUEUED × grant",
  "QUEUED × expire",
  "QUEUED × release_wanted",
  "ATTACHING × attached",
  "ATTACHING × attach_refused",
  "ATTACHING × attach_owed",
  "ATTACHING × attach_unknown",
  "ATTACHING × attach_paused",
  "ATTACHING × attach_resumed",
  "ATTACHING × attach_abandoned",
  "ATTACHING × release_wanted",
  "OFFERED × published",
  "OFFERED × not_mounted",
  "OFFERED × permit_refused",
  "OFFERED × publish_unknown",
  "OFFERED × offer_again",
  "OFFERED × release_wanted",
  "OFFERED × released",
  "ACTIVE × published",
  "ACTIVE × not_mounted",
  "ACTIVE × permit_refused",
  "ACTIVE × publish_unknown",
  "ACTIVE × publication_lost",
  "ACTIVE × release_wanted",
  "ACTIVE × released",
  "RELEASING × published",
  "RELEASING × not_mounted",
  "RELEASING × permit_refused",
  "RELEASING × released",
  "RELEASING × release_unknown",
  "DETACHING × detached",
  "DETACHING × detach_unknown",
  "DETACHING × released",
  "over × released",
];

interface Script {
  readonly modes: readonly AccessMode[];
  readonly attaches: boolean;
  readonly oneNode: boolean;
  readonly reclaim: "retain" | "delete";
  readonly commands: readonly Command[];
}

const scripts: fc.Arbitrary<Script> = fc
  .record({
    // One mode most of the time, so that claims can live beside each other; two, so that modes meet.
    modes: fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom(...accessModes).map((m) => [m]) },
      { weight: 1, arbitrary: fc.tuple(fc.constantFrom(...accessModes), fc.constantFrom(...accessModes)) },
    ),
    attaches: mostly(true, [true, false], 3),
    oneNode: mostly(false, [true], 2),
    reclaim: fc.constantFrom("delete" as const, "retain" as const),
    fresh: fc.boolean(),
    trouble: troubles,
  })
  .chain(({ fresh, trouble, ...world }) =>
    fc.array(commands(world.modes, trouble), { minLength: 10, maxLength: 60, size: "max" }).map((list) => ({
      ...world,
      // Half of the worlds begin with a volume that is there; the others see its creation fail in every way.
      commands: [["create", (w: VolumeWorld) => w.create()] as const, ...(fresh ? [] : [made]), ...list],
    })),
  );

const made: Command = [
  "created",
  (w) => w.step(0, { call: "done", late: false, publish: "done", release: "done", route: "direct" }, false),
];

const run = (script: Script, rules: Rules): VolumeWorld => {
  const { modes, attaches, oneNode, reclaim } = script;
  const capabilities = modes.map((accessMode) => ({
    accessMode,
    attachmentMode: "FILE_SYSTEM" as const,
    fsType: "",
    mountFlags: [],
    volumeMountGroup: "",
  }));
  const world = createVolumeWorld({ rules, nodes, capabilities, attaches, oneNode, reclaim });
  for (const [name, act] of script.commands) {
    try {
      act(world);
      world.check();
    } catch (error) {
      throw new Error(`${error instanceof Error ? error.message : String(error)}; at: ${name}`, { cause: error });
    }
  }
  world.recover();
  world.clear();
  return world;
};

const explain = (script: Script): string =>
  [
    `modes ${script.modes.join(", ")}; attaches ${script.attaches}; one node ${script.oneNode}; ${script.reclaim}`,
    ...script.commands.map(([name]) => name),
  ].join("\n  ");

describe("a volume among three nodes, with everything failing", () => {
  it("[I1] [I2] [I3] [I4] [I5] [I6] holds its invariants after every command and comes to rest", () => {
    const seen = new Map<string, number>();
    const property = fc.property(scripts, (script) => {
      for (const [cell, count] of run(script, domainRules).seen()) seen.set(cell, (seen.get(cell) ?? 0) + count);
    });
    const result = fc.check(property, { seed, numRuns: sample(50_000, quickRuns) });
    const [script] = result.counterexample ?? [];
    expect(script === undefined ? "" : `${String(result.errorInstance)}\n  ${explain(script)}`).toBe("");
    expect(expectedCells.filter((cell) => !seen.has(cell))).toEqual([]);
  }, 600_000);

  it.each(plantedFaults)("is refuted when $fault", ({ breaks, rules }) => {
    const property = fc.property(scripts, (script) => void run(script, { ...domainRules, ...rules }));
    const result = fc.check(property, { seed, numRuns: quickRuns, endOnFailure: true });
    expect(breaks).toContain(/\[(I\d)\]/.exec(String(result.errorInstance))?.[1]);
  });
});
