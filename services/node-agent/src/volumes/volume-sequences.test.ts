import fc from "fast-check";
import { expect, test } from "vitest";
import { sample } from "../../../../test/support/full.ts";
import type { PublishResult, ReleaseResult } from "../domain/answer-types.ts";
import { isAtRest } from "../domain/volume-machine.ts";
import {
  createModelAgent,
  type ModelAgent,
  modelPaths,
  permitOrder,
  releaseOrder,
  volumeRef,
} from "../testing/model-agent.ts";
import type { Fate } from "../testing/model-host.ts";
import { foldRecords } from "./ledger.ts";

const paths = modelPaths.of(volumeRef.plugin, volumeRef.externalId);
const caller = new AbortController().signal;

/** One claim as a controller knows it. It keeps to the protocol; the network and the host do not. */
interface Claim {
  readonly uid: string;
  readonly ctr: number;
  /** The oldest that lived when the permit was first made: an old message carries an old one. */
  readonly oldest: number;
  /** Of the node when the permit was last made; a copy in the network carries it for ever. */
  nodeEpoch: number;
  state: "live" | "releasing" | "over";
}

type Command =
  | { readonly do: "grant" }
  | { readonly do: "permit" | "release" | "stale-permit" | "stale-release"; readonly which: number }
  | { readonly do: "burst"; readonly which: readonly number[] }
  | { readonly do: "crash" | "reboot" | "lose-power" | "lose-journal" | "unmount" | "plugin-away" | "plugin-back" };

const fate = fc.constantFrom<Fate>(
  "done",
  "done",
  "done",
  "refused",
  "refused-after",
  "blocked",
  "lost-before",
  "lost-after",
  "crash-before",
  "crash-after",
);
const which = fc.nat(20);
const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 4, arbitrary: fc.constant({ do: "grant" } as const) },
  { weight: 6, arbitrary: fc.record({ do: fc.constantFrom("permit" as const, "release" as const), which }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constantFrom("stale-permit" as const, "stale-release" as const), which }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant("burst" as const), which: fc.array(which, { minLength: 2, maxLength: 4 }) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom(
        "crash" as const,
        "reboot" as const,
        "lose-power" as const,
        "unmount" as const,
        "plugin-away" as const,
        "plugin-back" as const,
      ),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ do: "lose-journal" } as const) },
);

type Mode = "SINGLE_NODE_SINGLE_WRITER" | "MULTI_NODE_READER_ONLY";

function createWorld(agent: ModelAgent, mode: Mode) {
  const claims: Claim[] = [];
  let lostJournals = 0;
  const live = () => claims.filter(({ state }) => state !== "over");
  const oldest = () => Math.min(...live().map(({ ctr }) => ctr));
  const nodeEpoch = () => agent.ledger().agent().nodeEpoch;
  const mounted = () => agent.host.mountedPaths();

  const settle = async <T>(answer: Promise<T>): Promise<T | "crashed"> => {
    const end = await Promise.race([answer, agent.crashed()]);
    if (end === "crashed") await agent.start();
    return end;
  };

  const permit = (claim: Claim, oldestCtr: number) =>
    permitOrder(claim.uid, claim.ctr, {
      accessMode: mode,
      readOnly: mode === "MULTI_NODE_READER_ONLY",
      nodeEpoch: claim.nodeEpoch,
      oldestLiveEpoch: { gen: 1, ctr: oldestCtr },
    });

  const onPublish = (claim: Claim, answer: PublishResult | "crashed"): void => {
    if (answer === "crashed") return;
    if (answer.kind === "published") {
      expect(mounted()).toContain(paths.target(claim.uid)); // an answer is never ahead of the kernel
      expect(answer.epoch.ctr).toBe(claim.ctr); // [I3]
    }
    if (answer.kind === "not-mounted") {
      expect(mounted()).not.toContain(paths.target(claim.uid));
      claim.state = "over";
    }
    if (answer.kind === "refused" && claim.state === "live" && answer.reason !== "ACCESS_CONFLICT")
      claim.state = "releasing";
  };

  const onRelease = (claim: Claim, answer: ReleaseResult | "crashed"): void => {
    if (answer === "crashed" || answer.kind !== "released") return;
    claim.state = "over";
    expect(mounted()).not.toContain(paths.target(claim.uid)); // [I2]
    if (live().length > 0) return;
    // The controller would detach now: nothing of the volume may be left.
    expect(mounted()).toEqual([]); // [I2]
    expect(agent.host.staged()).toEqual([]);
  };

  const freshPermit = (claim: Claim) => {
    claim.nodeEpoch = nodeEpoch();
    return permit(claim, oldest());
  };
  const push = async (claim: Claim) =>
    onPublish(claim, await settle(agent.volumes().publish(freshPermit(claim), caller)));
  const release = async (claim: Claim) => {
    claim.state = "releasing";
    onRelease(claim, await settle(agent.volumes().release(releaseOrder(claim.uid, claim.ctr, nodeEpoch()), caller)));
  };
  const drive = (claim: Claim) => (claim.state === "live" ? push(claim) : release(claim));

  const invariants = (): void => {
    const held = foldRecords(agent.disk().records);
    expect(held.fault).toBeUndefined();
    const volume = held.volumes.get(volumeRef.volumeUid);
    const targets = mounted().filter((path) => path !== paths.staging);
    if (mode === "SINGLE_NODE_SINGLE_WRITER") expect(targets.length).toBeLessThanOrEqual(1); // [I1]
    if (lostJournals > 0) return;
    // [I5] [I3] every mount has a claim that the journal on disk holds.
    const owned = Object.values(volume?.claims ?? {}).map(({ facts }) => facts.target);
    for (const target of targets) expect(owned).toContain(target);
    if (agent.host.staged().length > 0) expect(volume?.stage.phase).not.toBe("unstaged");
  };

  const pick = (from: readonly Claim[], at: number): Claim | undefined => from[at % Math.max(1, from.length)];

  const run = async (it: Command): Promise<void> => {
    switch (it.do) {
      case "grant": {
        const free = mode === "MULTI_NODE_READER_ONLY" ? live().length < 2 : live().length === 0;
        if (!free) return;
        const ctr = claims.length + 1;
        const claim: Claim = {
          uid: `c${ctr}`,
          ctr,
          oldest: Math.min(ctr, oldest()),
          nodeEpoch: nodeEpoch(),
          state: "live",
        };
        claims.push(claim);
        return;
      }
      case "permit":
      case "release": {
        const claim = pick(live(), it.which);
        if (claim === undefined) return;
        if (it.do === "release") await release(claim);
        else if (claim.state === "live") await push(claim);
        return;
      }
      case "stale-permit": {
        // A copy that the network kept: of any claim that ever was.
        const claim = pick(claims, it.which);
        if (claim === undefined) return;
        const answer = await settle(agent.volumes().publish(permit(claim, Math.min(claim.oldest, claim.ctr)), caller));
        if (answer === "crashed") return;
        if (claim.state === "over") expect(["refused", "not-mounted"]).toContain(answer.kind);
        else onPublish(claim, answer);
        return;
      }
      case "stale-release": {
        const claim = pick(
          claims.filter(({ state }) => state === "over"),
          it.which,
        );
        if (claim === undefined) return;
        const before = mounted();
        await settle(agent.volumes().release(releaseOrder(claim.uid, claim.ctr, claim.nodeEpoch), caller));
        expect(mounted().filter((path) => path !== paths.staging)).toEqual(
          before.filter((path) => path !== paths.staging),
        );
        return;
      }
      case "burst": {
        const chosen = it.which.flatMap((at) => pick(live(), at) ?? []);
        const orders = chosen.map((claim) =>
          claim.state === "live"
            ? agent
                .volumes()
                .publish(freshPermit(claim), caller)
                .then((answer) => () => onPublish(claim, answer))
            : agent
                .volumes()
                .release(releaseOrder(claim.uid, claim.ctr, nodeEpoch()), caller)
                .then((answer) => () => onRelease(claim, answer)),
        );
        const ends = await settle(Promise.all(orders));
        if (ends === "crashed") return;
        // One after the other, as they were answered; each is judged by what the kernel shows now.
        for (const end of ends) end();
        return;
      }
      case "crash":
        agent.crash();
        return agent.start();
      case "reboot":
        agent.crash();
        return agent.start({ rebooted: true });
      case "lose-power":
        agent.crash();
        return agent.start({ lostPower: true });
      case "lose-journal":
        agent.crash();
        lostJournals += 1;
        return agent.start({ lostJournal: true });
      case "unmount": {
        const target = mounted().find((path) => path !== paths.staging);
        if (target !== undefined) agent.host.unmount(target);
        return;
      }
      case "plugin-away":
        return agent.host.setPluginAway(true);
      case "plugin-back":
        return agent.host.setPluginAway(false);
    }
  };

  /** [I6] with a plugin that works and a controller that asks again, everything becomes clean. */
  const heal = async (): Promise<void> => {
    agent.host.fates.length = 0;
    agent.host.setPluginAway(false);
    for (const claim of live()) claim.state = "releasing";
    for (let round = 0; round < 4 && live().length > 0; round += 1) for (const claim of live()) await drive(claim);
    expect(live()).toEqual([]);
    expect(mounted()).toEqual([]);
    expect(agent.host.staged()).toEqual([]);
    expect(agent.host.owed()).toEqual([]); // [I5]
    expect([...foldRecords(agent.disk().records).volumes.values()].every(isAtRest)).toBe(true);
    expect([...agent.ledger().volumes()].every(isAtRest)).toBe(true);
  };

  return { run, invariants, heal };
}

test.each<Mode>(["SINGLE_NODE_SINGLE_WRITER", "MULTI_NODE_READER_ONLY"])(
  "[I1] [I2] [I3] [I4] [I5] [I6] whatever comes in whatever order, %s",
  async (mode) => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(command, { minLength: 4, maxLength: 40 }),
        fc.array(fate, { maxLength: 40 }),
        async (commands, fates) => {
          const agent = createModelAgent();
          await agent.start();
          agent.host.fates.push(...fates);
          const world = createWorld(agent, mode);
          for (const it of commands) {
            await world.run(it);
            world.invariants();
          }
          await world.heal();
          agent.crash();
        },
      ),
      { numRuns: sample(5_000, 500), seed: sample(Date.now() % 1e9, 20_240_501) },
    );
  },
  600_000,
);
