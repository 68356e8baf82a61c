/** The plugin host over several lives of the agent, and over journals that were lost, damaged or full. */
import { existsSync } from "node:fs";
import { rename } from "node:fs/promises";
import path from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { currentOf, stackOf } from "../../domain/plugin-registry.ts";
import { type HostLife, hosted, socketDirsIn, startHostRig, until } from "../../testing/host-rig.ts";
import { createJournalDisk, openMemoryJournal } from "../../testing/memory-journal.ts";

const name = "tiny.example.com";
const stopOrder = (allocation: string) => ({ allocation, waitMs: 0, leaveVolumes: false });
const orderOf = (life: HostLife, allocation: string): number =>
  life.host.registry().entries.find(({ instance }) => instance.allocation === allocation)?.order ?? 0;

describe("a journal that cannot be relied on", () => {
  test("lost while a plugin runs: its socket stays, and its runner gets the same one by preparing it again", async () => {
    const rig = await startHostRig();
    const first = await rig.live();
    const socket = await first.host.prepare(hosted("a"));
    await rig.plugin(first, "a");
    await until(() => orderOf(first, "a") === 1);
    await first.host.prepare(hosted("never-started"));
    await first.close();
    const second = await rig.live({ journal: openMemoryJournal(createJournalDisk("another")) });
    expect(second.host.registry().entries).toEqual([]);
    expect(await socketDirsIn(path.join(rig.dir, "h"))).toEqual([path.basename(path.dirname(socket))]);
    expect(await second.host.prepare(hosted("a"))).toBe(socket);
    await until(() => orderOf(second, "a") === 1);
  });

  test("damaged: what was read goes on, nothing is swept, and nothing can be prepared or stopped", async () => {
    const rig = await startHostRig();
    const first = await rig.live();
    await first.host.prepare(hosted("a"));
    await first.host.prepare(hosted("b"));
    await first.close();
    const whole = rig.journal();
    const journal = { ...whole, records: whole.records.slice(0, 1), damage: "broken at byte 7" };
    const life = await rig.live({ journal });
    expect(await socketDirsIn(path.join(rig.dir, "h"))).toHaveLength(2);
    await rig.plugin(life, "a");
    await until(() => life.host.connectionOf(hosted("a"))?.status().phase === "ready");
    const damaged = { reason: "JOURNAL_DAMAGED", message: "broken at byte 7" };
    await expect(life.host.prepare(hosted("c"))).rejects.toMatchObject(damaged);
    await expect(life.host.stop(stopOrder("a"), rig.signal)).rejects.toMatchObject(damaged);
    expect(life.host.connectionOf(hosted("a"))?.status().phase).toBe("ready");
  });

  test("an agent killed between the record of an end and the removal: the same StopPlugin again takes the rest away", async () => {
    const rig = await startHostRig();
    const life = await rig.live();
    await life.dirs.make("a");
    await rig.plugin(life, "a");
    expect(await life.host.stop(stopOrder("a"), rig.signal)).toEqual({ stopped: true, calls: [] });
    expect(await socketDirsIn(path.join(rig.dir, "h"))).toEqual([]);
  });

  test("full: nothing new is prepared, what was is answered again and can be stopped", async () => {
    const rig = await startHostRig();
    const first = await rig.live();
    await first.host.prepare(hosted("a"));
    await first.close();
    const life = await rig.live({ journal: { ...rig.journal(), fullBecause: () => "no room left" } });
    await expect(life.host.prepare(hosted("b"))).rejects.toMatchObject({ reason: "JOURNAL_FULL" });
    await life.host.prepare(hosted("a"));
    expect(await life.host.stop(stopOrder("a"), rig.signal)).toMatchObject({ stopped: true });
  });
});

describe("a plugin between its death and its restart, when nobody listens on its socket", () => {
  test("keeps its directory whatever other agent starts on the same base; that one is told to use another", async () => {
    const rig = await startHostRig();
    const one = await rig.live();
    const socket = await one.host.prepare(hosted("a"));
    const before = await rig.plugin(one, "a");
    await until(() => orderOf(one, "a") === 1);
    await before.kill();
    await until(() => one.host.connectionOf(hosted("a"))?.status().phase === "waiting");

    const other = await rig.live({ journal: openMemoryJournal(createJournalDisk("another")) });
    expect(await socketDirsIn(path.join(rig.dir, "h"))).toEqual([path.basename(path.dirname(socket))]);
    for (const allocation of ["a", "b"])
      await expect(other.host.prepare(hosted(allocation))).rejects.toMatchObject({
        reason: "HOSTED_PLUGIN_DIR_TAKEN",
        message: `another agent (pid ${process.pid}) hosts its plugins in ${path.join(rig.dir, "h")}: give this one a directory of its own, HOLDFAST_HOSTED_PLUGIN_DIR`,
      });
    // Asked to stop what it was not let have, it takes nothing from the other either.
    for (const allocation of ["a", "never-prepared"])
      expect(await other.host.stop(stopOrder(allocation), rig.signal)).toEqual({ stopped: true, calls: [] });
    expect(await socketDirsIn(path.join(rig.dir, "h"))).toEqual([path.basename(path.dirname(socket))]);

    await rig.plugin(one, "a");
    await until(() => one.host.connectionOf(hosted("a"))?.status().phase === "ready");
    await one.close();
    expect(await other.host.prepare(hosted("b"))).toBe(other.dirs.socketOf("b"));
  });

  test("gets its directory again when somebody took that away, and the whole base with it", async () => {
    const rig = await startHostRig();
    const life = await rig.live();
    const socket = await life.host.prepare(hosted("a"));
    const before = await rig.plugin(life, "a");
    await until(() => orderOf(life, "a") === 1);
    await before.kill();
    await until(() => life.host.connectionOf(hosted("a"))?.status().phase === "waiting");
    await rename(path.join(rig.dir, "h"), path.join(rig.dir, "gone"));
    await until(() => existsSync(path.dirname(socket)));
    await rig.plugin(life, "a");
    await until(() => life.host.connectionOf(hosted("a"))?.status().phase === "ready");
    // The base is another directory now, and this agent's all the same.
    const other = await rig.live({ journal: openMemoryJournal(createJournalDisk("another")) });
    await expect(other.host.prepare(hosted("b"))).rejects.toMatchObject({ reason: "HOSTED_PLUGIN_DIR_TAKEN" });
  });

  test("is said to have no place for its socket for as long as another agent has the base", async () => {
    const rig = await startHostRig();
    const before = await rig.live();
    const socket = await before.host.prepare(hosted("a"));
    await before.close();
    const other = await rig.live({ journal: openMemoryJournal(createJournalDisk("another")) });
    await other.host.prepare(hosted("b"));
    expect(existsSync(path.dirname(socket))).toBe(false);

    const life = await rig.live();
    const said: string[] = [];
    void (async () => {
      for await (const { message } of life.host.supervise(hosted("a"), rig.signal)) said.push(message);
    })().catch(() => undefined);
    await until(() => said.at(-1)?.startsWith("no socket yet, and no directory for it: another agent (pid ") === true);
    await other.close();
    await until(() => said.at(-1) === "no socket yet");
    expect(existsSync(path.dirname(socket))).toBe(true);
  });

  test("an agent that no runner can reach leaves the base to the one that hosts", async () => {
    const rig = await startHostRig();
    const host = await rig.live();
    await host.host.prepare(hosted("never-started"));
    await host.close();
    await rig.live({ journal: openMemoryJournal(createJournalDisk("another")), hosting: false });
    expect(await socketDirsIn(path.join(rig.dir, "h"))).toHaveLength(1);
    const again = await rig.live();
    expect(await again.host.prepare(hosted("b"))).toBe(again.dirs.socketOf("b"));
  });
});

const allocations = ["a", "b", "c"] as const;
type Act = { readonly act: "prepare" | "up" | "down" | "stop"; readonly allocation: (typeof allocations)[number] };

const acts = fc.array(
  fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        act: fc.constantFrom("prepare", "up", "down", "stop"),
        allocation: fc.constantFrom(...allocations),
      }) as fc.Arbitrary<Act>,
    },
    { weight: 1, arbitrary: fc.constant("agent killed" as const) },
  ),
  { maxLength: 14 },
);

describe("any order of preparing, starting, dying, stopping and killing the agent", () => {
  test("the newest that ever was ready is current, the newest that is up is called, and nothing is left behind", async () => {
    await fc.assert(
      fc.asyncProperty(acts, async (sequence) => {
        const rig = await startHostRig();
        let life = await rig.live();
        const prepared = new Set<string>();
        const running = new Map<string, Awaited<ReturnType<typeof rig.plugin>>>();
        let stack: string[] = [];

        const settle = async (): Promise<void> => {
          for (const allocation of running.keys()) {
            if (!prepared.has(allocation)) continue;
            await until(() => orderOf(life, allocation) > 0);
            if (!stack.includes(allocation)) stack = [allocation, ...stack];
          }
          const called = stack.find((allocation) => running.has(allocation));
          await until(() => life.plugins.get(name, "node")?.instanceId === called);
          expect(stackOf(life.host.registry(), "node", name).map(({ instance }) => instance.allocation)).toEqual(stack);
          expect(currentOf(life.host.registry(), "node", name)).toBe(stack[0]);
          const shown = life.board.list().filter((it) => it.current);
          expect(shown.map(({ allocation }) => allocation)).toEqual(stack.slice(0, 1));
          expect(life.board.list()).toHaveLength(prepared.size);
        };
        const down = async (allocation: string): Promise<void> => {
          await running.get(allocation)?.kill();
          running.delete(allocation);
        };

        for (const step of sequence) {
          if (step === "agent killed") {
            await life.close();
            life = await rig.live();
          } else if (step.act === "prepare") {
            await life.host.prepare(hosted(step.allocation));
            prepared.add(step.allocation);
          } else if (step.act === "up" && prepared.has(step.allocation) && !running.has(step.allocation)) {
            running.set(step.allocation, await rig.plugin(life, step.allocation));
          } else if (step.act === "down") {
            await down(step.allocation);
          } else if (step.act === "stop") {
            expect(await life.host.stop(stopOrder(step.allocation), rig.signal)).toEqual({ stopped: true, calls: [] });
            await down(step.allocation);
            prepared.delete(step.allocation);
            stack = stack.filter((it) => it !== step.allocation);
          }
          await settle();
        }
        for (const allocation of allocations) {
          await life.host.stop(stopOrder(allocation), rig.signal);
          await down(allocation);
        }
        expect(life.board.list()).toEqual([]);
        expect(life.directory.list()).toEqual([]);
        expect(await socketDirsIn(path.join(rig.dir, "h"))).toEqual([]);
        await life.close();
      }),
      { numRuns: 12 },
    );
  }, 60_000);
});
