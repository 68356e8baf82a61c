import fc from "fast-check";
import { expect, test } from "vitest";
import { DriverError } from "../domain/driver-error.ts";
import type { Capability } from "../domain/records.ts";
import { blockCapability, createNodeFixture, mountCapability, type NodeFixture } from "../testing/node-fixture.ts";

/**
 * Any walk of calls over several volumes, with kills, failures, restarts and reboots anywhere: each answer is the one that a simple model
 * gives, the mounts are those of the model, and at the end nothing is left.
 */

interface Volume {
  readonly id: string;
  readonly capability: Capability;
  readonly staging: string;
  staged: boolean;
  /** Target by number, and whether it is read-only. */
  readonly targets: Map<number, boolean>;
}

const targetOf = (volume: Volume, n: number) => `/co/${volume.id}/${n}/target`;

type Call =
  | { readonly call: "stage" | "unstage" }
  | { readonly call: "publish"; readonly n: number; readonly readonly: boolean }
  | { readonly call: "unpublish"; readonly n: number };
type Trouble = { readonly kind: "die" | "fail" | "lost"; readonly skip: number } | undefined;
type Step =
  | { readonly kind: "call"; readonly volume: number; readonly call: Call; readonly trouble: Trouble }
  | { readonly kind: "restart" }
  | { readonly kind: "reboot" };

/** The answer of the model, which does the call when it is "OK". */
const expected = (volume: Volume, call: Call): string => {
  const { targets } = volume;
  switch (call.call) {
    case "stage":
      volume.staged = true;
      return "OK";
    case "unstage":
      if (!volume.staged) return "OK";
      if (targets.size > 0) return "FAILED_PRECONDITION";
      volume.staged = false;
      return "OK";
    case "publish":
      if (targets.has(call.n)) return targets.get(call.n) === call.readonly ? "OK" : "ALREADY_EXISTS";
      if (!volume.staged) return "FAILED_PRECONDITION";
      targets.set(call.n, call.readonly);
      return "OK";
    case "unpublish":
      targets.delete(call.n);
      return "OK";
  }
};

const make = ({ node, signal }: NodeFixture, volume: Volume, call: Call): Promise<string> => {
  const { id: volumeId, staging: stagingPath, capability } = volume;
  const run = (): Promise<void> => {
    switch (call.call) {
      case "stage":
        return node.stage({ volumeId, stagingPath, capability }, signal);
      case "unstage":
        return node.unstage({ volumeId, stagingPath }, signal);
      case "publish": {
        const { n, readonly } = call;
        return node.publish({ volumeId, stagingPath, targetPath: targetOf(volume, n), capability, readonly }, signal);
      }
      case "unpublish":
        return node.unpublish({ volumeId, targetPath: targetOf(volume, call.n) }, signal);
    }
  };
  return run().then(
    () => "OK",
    (error: unknown) => {
      if (error instanceof DriverError) return error.code;
      throw error;
    },
  );
};

const target = fc.integer({ min: 1, max: 2 });
const call: fc.Arbitrary<Call> = fc.oneof(
  fc.constantFrom<Call>({ call: "stage" }, { call: "unstage" }),
  fc.record({ call: fc.constant("publish" as const), n: target, readonly: fc.boolean() }),
  fc.record({ call: fc.constant("unpublish" as const), n: target }),
);
const trouble: fc.Arbitrary<Trouble> = fc.option(
  fc.record({ kind: fc.constantFrom("die", "fail", "lost"), skip: fc.nat({ max: 25 }) }),
  { nil: undefined },
);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({ kind: fc.constant("call" as const), volume: fc.nat({ max: 3 }), call, trouble }),
  },
  { weight: 1, arbitrary: fc.constantFrom<Step>({ kind: "restart" }, { kind: "reboot" }) },
);

const kinds = [
  { type: "image", capability: mountCapability },
  { type: "image", capability: blockCapability },
  { type: "directory", capability: mountCapability },
  { type: "image", capability: { ...mountCapability, fsType: "xfs", mountGroup: "7" } },
] as const;

const setUp = async (at: NodeFixture): Promise<readonly Volume[]> => {
  const { places } = at.memory.world;
  const volumes: Volume[] = [];
  for (const { type, capability } of kinds) {
    const { id } = await at.addVolume({ type, name: `volume-${volumes.length}` });
    for (const place of ["", "/staging", "/1", "/2"]) places.set(`/co/${id}${place}`, "directory");
    volumes.push({ id, capability, staging: `/co/${id}/staging`, staged: false, targets: new Map() });
  }
  return volumes;
};

const restart = async (at: NodeFixture): Promise<void> => {
  at.memory.restart();
  await at.node.recover(at.signal);
};

/** A reboot takes the mounts away; the orchestrator asks for what it wants again, and gets it. */
const comeBack = async (at: NodeFixture, volume: Volume): Promise<void> => {
  if (volume.staged) expect(await make(at, volume, { call: "stage" })).toBe("OK");
  for (const [n, readonly] of volume.targets)
    expect(await make(at, volume, { call: "publish", n, readonly })).toBe("OK");
};

const asTheModel = (at: NodeFixture, volumes: readonly Volume[]): void => {
  const wanted = volumes.flatMap((volume) => [
    ...(volume.staged && volume.capability.access === "mount" ? [volume.staging] : []),
    ...[...volume.targets.keys()].map((n) => targetOf(volume, n)),
  ]);
  expect(at.mounts().toSorted()).toEqual(wanted.toSorted());
  for (const volume of volumes) {
    const { staging, publications } = at.record(volume.id);
    expect(staging?.path).toBe(volume.staged ? volume.staging : undefined);
    expect(publications.map(({ path }) => path).toSorted()).toEqual(
      [...volume.targets.keys()].map((n) => targetOf(volume, n)).toSorted(),
    );
  }
};

test("any walk", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const at = createNodeFixture();
      const volumes = await setUp(at);
      for (const each of steps) {
        if (each.kind === "restart") await restart(at);
        else if (each.kind === "reboot") {
          at.memory.reboot();
          await at.node.recover(at.signal);
          for (const volume of volumes) await comeBack(at, volume);
        } else {
          const volume = volumes[each.volume];
          if (volume === undefined) throw new Error("there are four");
          if (each.trouble !== undefined) {
            const { kind, skip } = each.trouble;
            const fault = kind === "die" ? ({ kind, when: "after" } as const) : ({ kind, code: "INTERNAL" } as const);
            at.memory.inject({ on: "*", skip, ...fault });
            await make(at, volume, each.call).catch(() => undefined);
            at.memory.clearFaults();
            await restart(at);
          }
          const answer = await make(at, volume, each.call);
          expect(answer, JSON.stringify(each)).toBe(expected(volume, each.call));
        }
        asTheModel(at, volumes);
      }
      for (const volume of volumes) {
        for (const n of volume.targets.keys()) expect(await make(at, volume, { call: "unpublish", n })).toBe("OK");
        expect(await make(at, volume, { call: "unstage" })).toBe("OK");
      }
      expect(at.memory.leftovers()).toEqual([]);
    }),
    { numRuns: 400 },
  );
});
