import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { bytes, createControllerFixture, gib, mib, raw } from "../testing/controller-fixture.ts";

const available = async (at: ReturnType<typeof createControllerFixture>) =>
  (await at.volumes.capacity({ capabilities: [], parameters: {}, segments: {} })).availableBytes;

/** What all images together may still grow to, when every block of each is written once. */
const worst = ({ memory: { records, world } }: ReturnType<typeof createControllerFixture>): bigint => {
  const volumes = [...records.volumes.values()].reduce((sum, { capacityBytes }) => sum + capacityBytes, 0n);
  let snapshots = 0n;
  for (const [file, image] of world.files)
    if (file.startsWith("/state/snapshots/") && image.kind === "image") snapshots += BigInt(image.blocks.size) * 4096n;
  return volumes + snapshots;
};

describe("what is owed to images", () => {
  test("is what they have not taken yet: writing changes nothing", async () => {
    const at = createControllerFixture({ diskBytes: 10n * gib });
    const { id } = await at.volume("v", { capacity: bytes(gib) });
    expect(await available(at)).toBe(9n * gib);
    at.memory.write(id, 0n, 1000, 1);
    expect(await available(at)).toBe(9n * gib);
    await at.volumes.deleteVolume(id, at.signal);
    expect(await available(at)).toBe(10n * gib);
  });

  test("directories are owed nothing, and a missing image all of its size", async () => {
    const at = createControllerFixture({ diskBytes: 10n * gib });
    await at.volume("d", { parameters: { type: "directory" }, capacity: bytes(5n * gib) });
    expect(await available(at)).toBe(10n * gib);
    const { id } = await at.volume("v", { capacity: bytes(gib) });
    at.memory.world.files.delete(at.memory.host.state.volumes.paths(id).image);
    expect(await available(at)).toBe(9n * gib);
  });

  test.each([
    ["with reflinks a snapshot's blocks are owed to whoever overwrites them", true, 4n * mib + 4n * mib],
    ["without, it has taken all it ever will", false, 4n * mib],
  ])("%s", async (_, reflinks, taken) => {
    const at = createControllerFixture({ diskBytes: 10n * gib, reflinks });
    const { id } = await at.volume("v", { capacity: bytes(gib) });
    at.memory.write(id, 0n, 1024, 1);
    const before = await available(at);
    await at.snapshot("s", id);
    // The memory host shares no blocks: the copy itself has taken 4 MiB.
    expect(before - (await available(at))).toBe(taken);
  });

  test("promises to volumes being made count, whether or not their images are there already", async () => {
    const at = createControllerFixture({ diskBytes: 10n * gib });
    at.memory.inject({ on: "images.create", kind: "hang" });
    const caller = new AbortController();
    const making = at.volumes
      .createVolume(
        {
          name: "slow",
          capacity: bytes(4n * gib),
          capabilities: [raw],
          parameters: {},
          mutableParameters: {},
          source: undefined,
          requisite: [],
          preferred: [],
        },
        caller.signal,
      )
      .catch((error: unknown) => error);
    await expect.poll(() => at.memory.calls).toContain("images.create");
    expect(await available(at)).toBe(6n * gib);
    caller.abort(new DOMException("left", "AbortError"));
    await making;
    expect(await available(at)).toBe(10n * gib);
  });

  test("no file is looked at while there is room for all that images may still grow to", async () => {
    const at = createControllerFixture({ diskBytes: 4n * gib });
    const { id } = await at.volume("v", { capacity: bytes(gib) });
    at.memory.write(id, 0n, 1000, 1);
    at.memory.calls.length = 0;
    await at.volume("w", { capacity: bytes(2n * gib) });
    expect(at.memory.calls).toEqual(["space.freeBytes", "volumes.add", "images.create"]);
    at.memory.calls.length = 0;
    await at.volume("x", { capacity: bytes(gib) });
    expect(at.memory.calls).toContain("space.allocatedBytes");
  });

  test("however many ask at once, no byte is promised twice", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 2, maxLength: 12 }),
        fc.scheduler(),
        async (sizes, scheduler) => {
          const at = createControllerFixture({ diskBytes: 8n * gib, reflinks: false });
          // Empty snapshots are owed nothing, and could be owed 8 GiB: every call has to sum up.
          const { id } = await at.volume("gone", { capacity: bytes(4n * gib) });
          for (const name of ["s", "t"]) await at.snapshot(name, id);
          await at.volumes.deleteVolume(id, at.signal);
          const slow = <T>(method: () => Promise<T>) => scheduler.schedule(Promise.resolve()).then(method);
          const { space } = at.memory.host;
          const freeBytes = space.freeBytes.bind(space);
          Object.assign(space, { freeBytes: () => slow(freeBytes) });
          const asked = sizes.map((size, n) => at.volume(`v${n}`, { capacity: bytes(BigInt(size) * gib) }));
          const answers = Promise.allSettled(asked);
          await scheduler.waitFor(answers);
          expect(worst(at)).toBeLessThanOrEqual(8n * gib);
          const refused = (await answers).filter(({ status }) => status === "rejected").length;
          const made = at.memory.records.volumes.size;
          expect(made + refused).toBe(sizes.length);
          Object.assign(space, { freeBytes });
          // Whoever asks alone gets what is left.
          const left = 8n * gib - worst(at);
          if (left >= 16n * mib) expect((await at.volume("rest", { capacity: bytes(left) })).capacityBytes).toBe(left);
        },
      ),
      { numRuns: 40 },
    );
  });
});
