import { appendFile } from "node:fs/promises";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { full } from "../../../test/support/full.ts";
import { isAtRest } from "./domain/volume-machine.ts";
import { type FailpointName, failpointNames } from "./failpoints.ts";
import { type AgentRig, isRoot, journalText, type RigClaim, startRig } from "./testing/agent-rig.ts";
import { readJournal } from "./volumes/journal-format.ts";
import { foldRecords } from "./volumes/ledger.ts";

/** Lets the agent die at the point, starts it again, and lets the orders go on meanwhile, as a controller would. */
async function dieAt(rig: AgentRig, point: FailpointName, life: () => Promise<void>): Promise<void> {
  const armed = rig.start({ HOLDFAST_FAILPOINTS: `${point}=kill` }).catch(() => undefined);
  const revived = (async () => {
    await armed;
    expect(await rig.exited()).toBe("SIGKILL");
    await rig.start();
  })();
  await Promise.all([life(), revived]);
}

async function expectClean(rig: AgentRig): Promise<void> {
  expect(rig.mountsBelowRoot()).toEqual([]);
  const { stages, publications } = rig.plugin.backend.state();
  expect([...stages.values()].flat()).toEqual([]);
  expect([...publications.values()].flat()).toEqual([]);
  expect(rig.plugin.backend.violations()).toEqual([]);
  const reading = readJournal(Buffer.from(await journalText(rig)));
  expect(reading.kind).toBe("good");
  const { volumes, fault } = foldRecords(reading.kind === "good" ? reading.journal.records : []);
  expect(fault).toBeUndefined();
  expect([...volumes.values()].every(isAtRest)).toBe(true);
  const end = (await rig.inventory()).at(-1)?.end;
  expect(end).toMatchObject({ orphans: 0 });
}

const upAndDown = async (rig: AgentRig, claim: RigClaim): Promise<void> => {
  expect((await rig.publishUntilSettled(claim)).published).toBeDefined();
  expect((await rig.releaseUntilSettled(claim)).released).toBeDefined();
};

const lives: Partial<Record<FailpointName, (rig: AgentRig) => Promise<void>>> = {
  // Passed only by the release of a permit that never came.
  "agent.dead.before-journal": async (rig) => void (await rig.releaseUntilSettled({ uid: "never", ctr: 9 })),
  "agent.dead.after-journal": async (rig) => void (await rig.releaseUntilSettled({ uid: "never", ctr: 9 })),
};

/** The whole list three times in full; otherwise a third of it once: the whole-system tests take another. */
const pick = (names: readonly FailpointName[], share: number): readonly FailpointName[] =>
  full ? Array.from({ length: 3 }, () => names).flat() : names.filter((_, at) => at % share === 0);

const points = pick(failpointNames, 3);
/** The stage is there already and nothing stages it again: those points are never passed. */
const ofSecondReader = failpointNames.filter((name) => /agent\.(un)?publish|agent\.unstage|agent\.release/.test(name));

describe.skipIf(!isRoot)("the agent is killed", () => {
  test.each(points)("[I2] [I4] [I5] [I6] at %s: nothing leaks, nothing is lost, nothing sticks", async (point) => {
    const rig = await startRig();
    const life = lives[point] ?? ((it) => upAndDown(it, { uid: "a", ctr: 1 }));
    await dieAt(rig, point, () => life(rig));
    await upAndDown(rig, { uid: "b", ctr: 2 });
    await expectClean(rig);
  });

  test.each(pick(ofSecondReader, 8))(
    "[I5] at %s, of a volume with two readers: one of them keeps its mount",
    async (point) => {
      const rig = await startRig();
      const reader = { accessMode: 3, readOnly: true, oldestLive: 1 } as const;
      const [first, second] = [
        { uid: "a", ctr: 1, ...reader },
        { uid: "b", ctr: 2, ...reader },
      ];
      await rig.start();
      const kept = (await rig.publishUntilSettled(first)).published?.hostPath ?? "";
      rig.signal("SIGTERM");
      expect(await rig.exited()).toBe(0);
      const life = async () => {
        await rig.publishUntilSettled(second);
        expect(rig.mountsBelowRoot()).toContain(kept);
        await rig.releaseUntilSettled(second);
        expect(rig.mountsBelowRoot()).toContain(kept);
        await rig.releaseUntilSettled(first);
      };
      await dieAt(rig, point, life);
      await expectClean(rig);
    },
  );

  test("a torn journal is cut, and a kill while it is rewritten loses nothing", async () => {
    const rig = await startRig();
    await rig.start();
    await rig.publishUntilSettled({ uid: "a", ctr: 1 });
    for (const point of ["agent.compact.after-write", "agent.compact.after-rename"] as const) {
      rig.signal("SIGKILL");
      await rig.exited();
      await appendFile(path.join(rig.stateDir, "journal"), '0123abcd [99,[{"v":"x"');
      await dieAt(rig, point, async () => void (await rig.publishUntilSettled({ uid: "a", ctr: 1 })));
    }
    expect(rig.plugin.backend.record().filter(({ method }) => method === "NodeStageVolume")).toHaveLength(1);
    await rig.releaseUntilSettled({ uid: "a", ctr: 1 });
    await expectClean(rig);
  });
});
