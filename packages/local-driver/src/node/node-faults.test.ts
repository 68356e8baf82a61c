import { describe, expect, test } from "vitest";
import { DriverError } from "../domain/driver-error.ts";
import type { Capability, VolumeRecord } from "../domain/records.ts";
import { driverSettings } from "../testing/driver-settings.ts";
import { Killed } from "../testing/memory-faults.ts";
import {
  blockCapability,
  createNodeFixture,
  mountCapability,
  type NodeFixture,
  readerCapability,
  stagingPath,
  targetPath,
} from "../testing/node-fixture.ts";
import { createNodeOperations } from "./node-operations.ts";

/** Every call that an operation makes × everything that can go wrong with it: afterwards a repeat makes it as if nothing had been. */

interface Kind {
  readonly name: string;
  readonly volume: Partial<VolumeRecord>;
  readonly capability: Capability;
  readonly readonly: boolean;
}

const kinds: readonly Kind[] = [
  { name: "ext4", volume: {}, capability: { ...mountCapability, mountGroup: "2000" }, readonly: false },
  { name: "xfs, read-only target", volume: {}, capability: { ...mountCapability, fsType: "xfs" }, readonly: true },
  { name: "staged read-only", volume: {}, capability: readerCapability, readonly: false },
  { name: "directory", volume: { type: "directory" }, capability: mountCapability, readonly: false },
  { name: "block", volume: {}, capability: blockCapability, readonly: false },
  { name: "block, read-only target", volume: {}, capability: blockCapability, readonly: true },
];

type Step = "stage" | "publish" | "unpublish" | "unstage";
const steps: readonly Step[] = ["stage", "publish", "unpublish", "unstage"];

const doing: Readonly<Record<Step, (at: NodeFixture, id: string, kind: Kind, signal?: AbortSignal) => Promise<void>>> =
  {
    stage: (at, volumeId, { capability }, signal = at.signal) =>
      at.node.stage({ volumeId, stagingPath, capability }, signal),
    publish: (at, volumeId, { capability, readonly }, signal = at.signal) =>
      at.node.publish({ volumeId, stagingPath, targetPath: targetPath(1), capability, readonly }, signal),
    unpublish: (at, volumeId, _, signal = at.signal) =>
      at.node.unpublish({ volumeId, targetPath: targetPath(1) }, signal),
    unstage: (at, volumeId, _, signal = at.signal) => at.node.unstage({ volumeId, stagingPath }, signal),
  };

/** What a person would see. Devices by number are not told apart: which is free is chance. */
const picture = ({ memory }: NodeFixture, id: string) => ({
  mounts: memory.world.mounts,
  loops: [...memory.world.loops.values()],
  places: [...memory.world.places.keys()].sort(),
  record: memory.records.volumes.get(id),
  image: withoutIdentity(memory.world.files.get(memory.host.state.volumes.paths(id).image)),
  groups: [...memory.world.groups],
});

/** mkfs that ran twice gives another. */
const withoutIdentity = <F extends object>(file: F | undefined) =>
  file !== undefined && "identity" in file ? { ...file, identity: 0 } : file;

const upTo = async (kind: Kind, step: Step) => {
  const at = createNodeFixture();
  const { id } = await at.addVolume(kind.volume);
  for (const each of steps.slice(0, steps.indexOf(step))) await doing[each](at, id, kind);
  at.memory.calls.length = 0;
  return { at, id, before: structuredClone(picture(at, id)) };
};

const undisturbed = async (kind: Kind, step: Step) => {
  const { at, id } = await upTo(kind, step);
  await doing[step](at, id, kind);
  return { calls: [...at.memory.calls], after: structuredClone(picture(at, id)) };
};

describe.each(kinds)("$name", (kind) => {
  describe.each(steps)("%s", (step) => {
    const eachCall = async (check: (n: number, after: ReturnType<typeof picture>) => Promise<void>) => {
      const { calls, after } = await undisturbed(kind, step);
      for (const n of calls.keys()) await check(n, after);
      return calls.length;
    };

    test("twice is as once, and the second time changes nothing", async () => {
      const { at, id } = await upTo(kind, step);
      await doing[step](at, id, kind);
      const once = structuredClone(picture(at, id));
      at.memory.calls.length = 0;
      await doing[step](at, id, kind);
      expect(picture(at, id)).toEqual(once);
      const acts = at.memory.calls.filter((call) =>
        /mountDevice|bind|unmount|attach|detach|format|make|remove$/.test(call),
      );
      expect(acts).toEqual([]);
    });

    test.each(["before", "after"] as const)("killed %s any of its calls, and started again", async (when) => {
      const tried = await eachCall(async (n, after) => {
        const { at, id } = await upTo(kind, step);
        at.memory.inject({ on: "*", skip: n, kind: "die", when });
        await expect(doing[step](at, id, kind), `call ${n}`).rejects.toThrow(Killed);
        at.memory.restart();
        await at.node.recover(at.signal);
        await doing[step](at, id, kind);
        expect(picture(at, id), `call ${n}`).toEqual(after);
      });
      expect(tried).toBeGreaterThan(2);
    });

    test.each(["fail", "lost"] as const)("%s at any of its calls: taken back or resumable", async (fault) => {
      await eachCall(async (n, after) => {
        const { at, id, before } = await upTo(kind, step);
        at.memory.inject({ on: "*", skip: n, kind: fault, code: "INTERNAL" });
        const error = await doing[step](at, id, kind).then(
          () => undefined,
          (reason: unknown) => reason,
        );
        // A fault of what only looks may be survived.
        if (error !== undefined) {
          expect(error, `call ${n}`).toBeInstanceOf(DriverError);
          if (step === "stage" || step === "publish")
            expectTakenBack(picture(at, id), before, step, `call ${n}: ${error}`);
        }
        await doing[step](at, id, kind);
        expect(picture(at, id), `call ${n}`).toEqual(after);
      });
    });

    test("hangs at any call that waits, and the caller's deadline passes", async () => {
      await eachCall(async (n, after) => {
        const { at, id, before } = await upTo(kind, step);
        const calls = (await undisturbed(kind, step)).calls;
        if (!waits.test(calls[n] ?? "")) return;
        at.memory.inject({ on: "*", skip: n, kind: "hang" });
        const deadline = new AbortController();
        const done = doing[step](at, id, kind, deadline.signal);
        const refused = expect(done, `call ${n}, ${calls[n]}`).rejects.toThrow();
        await new Promise((resolve) => setImmediate(resolve));
        deadline.abort(new DOMException("the deadline has passed", "TimeoutError"));
        await refused;
        if (step === "stage" || step === "publish") expectTakenBack(picture(at, id), before, step, `call ${n}`);
        await doing[step](at, id, kind);
        expect(picture(at, id), `call ${n}`).toEqual(after);
      });
    });

    test("killed while it takes back, and started again", async () => {
      await eachCall(async (n, after) => {
        for (const later of [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]) {
          const { at, id } = await upTo(kind, step);
          at.memory.inject(
            { on: "*", skip: n, kind: "lost", code: "INTERNAL" },
            { on: "*", skip: n + later, kind: "die", when: "after" },
          );
          await doing[step](at, id, kind).catch(() => undefined);
          at.memory.clearFaults();
          at.memory.restart();
          await at.node.recover(at.signal);
          await doing[step](at, id, kind);
          expect(picture(at, id), `call ${n}, then ${later}`).toEqual(after);
        }
      });
    });
  });

  test("a reboot between any two steps: the same calls again, and nothing is left at the end", async () => {
    for (const step of ["publish", "unpublish", "unstage"] as const) {
      const { at, id } = await upTo(kind, step);
      at.memory.reboot();
      await at.node.recover(at.signal);
      if (step !== "unstage") await doing.stage(at, id, kind);
      if (step !== "unstage") await doing.publish(at, id, kind);
      await doing.unpublish(at, id, kind);
      await doing.unstage(at, id, kind);
      expect(at.memory.leftovers()).toEqual([]);
      expect(at.memory.world.places.has(targetPath(1))).toBe(false);
      expect(at.record(id)).toMatchObject({ staging: undefined, publications: [] });
    }
  });
});

const waits = /^(images\.(?!sizeOf)|loops\.(?!of)|mounts\.(mountDevice|bind|unmount)|filesystems)/;

function expectTakenBack(
  now: ReturnType<typeof picture>,
  before: ReturnType<typeof picture>,
  step: "stage" | "publish",
  at: string,
): void {
  expect(now.mounts, at).toEqual(before.mounts);
  expect(now.loops, at).toEqual(before.loops);
  expect(now.places, at).toEqual(before.places);
  if (step === "stage") expect(now.record?.staging, at).toBeUndefined();
  else expect(now.record?.publications, at).toEqual([]);
}

test("what cannot be taken back is named, with the call that does it", async () => {
  const at = createNodeFixture();
  const { id } = await at.addVolume();
  at.memory.inject(
    { on: "filesystems.giveToGroup", kind: "fail", code: "INTERNAL", message: "chgrp failed" },
    { on: "mounts.unmount", kind: "fail", code: "FAILED_PRECONDITION", message: "target is busy" },
  );
  await expect(at.stage(id, { ...mountCapability, mountGroup: "7" })).rejects.toThrow(
    /chgrp failed; not everything could be taken back \(target is busy\); NodeUnstageVolume takes the rest/,
  );
  expect(at.record(id).staging?.path).toBe(stagingPath);
  await at.unstage(id);
  expect(at.memory.leftovers()).toEqual([]);
  expect(at.record(id).staging).toBeUndefined();
});

test.each([
  ["DEADLINE_EXCEEDED", new DOMException("too late", "TimeoutError")],
  ["CANCELLED", new Error("the caller has gone")],
] as const)("a caller that gives up reads %s, and what was taken back", async (code, reason) => {
  const at = createNodeFixture();
  const { id } = await at.addVolume();
  at.memory.inject({ on: "mounts.mountDevice", kind: "hang" });
  const caller = new AbortController();
  const done = at.node.stage({ volumeId: id, stagingPath, capability: mountCapability }, caller.signal);
  const refused = expect(done).rejects.toMatchObject({
    code,
    message: `volume ${id} (data) on node node-a: ${reason.message}; taken back: /dev/loop0`,
  });
  await new Promise((resolve) => setImmediate(resolve));
  caller.abort(reason);
  await refused;
});

test("taking back has a deadline of its own", async () => {
  const at = createNodeFixture();
  const { id } = await at.addVolume();
  at.memory.inject(
    { on: "filesystems.giveToGroup", kind: "fail", code: "INTERNAL" },
    { on: "mounts.unmount", kind: "hang" },
  );
  const node = createNodeOperations({ host: at.memory.host, settings: driverSettings, undoMs: 5 });
  const capability = { ...mountCapability, mountGroup: "7" };
  await expect(node.stage({ volumeId: id, stagingPath, capability }, at.signal)).rejects.toThrow(/not everything/);
  await at.stage(id, capability);
  expect(at.mounts()).toEqual([stagingPath]);
});
