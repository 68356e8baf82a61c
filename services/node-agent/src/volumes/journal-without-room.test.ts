import { expect, onTestFinished, test, vi } from "vitest";
import { mountTinyDisk, type TinyDisk } from "../../../../test/support/tiny-disk.ts";
import { noFailpoints } from "../failpoints.ts";
import { type Journal, openJournal } from "./journal.ts";
import type { JournalOptions } from "./journal-writer.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: a full disk needs root, for a small tmpfs");

const tinyDisk = (): TinyDisk => {
  const disk = mountTinyDisk(256);
  onTestFinished(() => disk.remove());
  return disk;
};

const open = async (dir: string, changes: Partial<JournalOptions> = {}): Promise<Journal> => {
  const journal = await openJournal({
    dir,
    machine: "m-1",
    newUid: () => "uid",
    failpoint: noFailpoints,
    maxBytes: 1 << 30,
    minFreeBytes: 8192,
    onFatal: (error) => expect.unreachable(error.message),
    ...changes,
  });
  onTestFinished(() => journal.close());
  return journal;
};

/** More than the last page of the file has room for. */
const large = { text: "x".repeat(10_000) };
const untold = () => undefined;

test.skipIf(!root).each(["host", "process"] as const)(
  "[I4] a record for the life of the %s waits for room: told to nobody before, written once after, and the process lives",
  async (survival) => {
    const disk = tinyDisk();
    const waits: boolean[] = [];
    const journal = await open(disk.dir, { onWait: (now) => waits.push(now) });
    await journal.append([{ a: 1 }], "host", untold);
    disk.fill();
    const told: string[] = [];
    const written = [
      journal.append([{ a: 2 }, large], survival, () => told.push("a")),
      journal.append([{ a: 3 }], survival, () => told.push("b")),
    ];
    await vi.waitFor(() => expect(waits).toEqual([true]));
    // Tried again, and still not told.
    await new Promise((resolve) => setTimeout(resolve, 600));
    expect(told).toEqual([]);
    expect(journal.waitsBecause()).toContain(`the disk of ${disk.dir}/journal is full`);
    expect(journal.fullBecause()).toBe(journal.waitsBecause());
    disk.empty();
    await Promise.all(written);
    expect({ told, waits, because: journal.waitsBecause() }).toEqual({
      told: ["a", "b"],
      waits: [true, false],
      because: undefined,
    });
    await journal.close();
    expect((await open(disk.dir)).records).toEqual([{ a: 1 }, { a: 2 }, large, { a: 3 }]);
  },
);

test.skipIf(!root)(
  "an end while it waits: nothing of it is left, and the next life begins on the full disk",
  async () => {
    const disk = tinyDisk();
    const fatal: Error[] = [];
    const waiting = Promise.withResolvers<void>();
    const journal = await open(disk.dir, { onWait: () => waiting.resolve(), onFatal: (error) => fatal.push(error) });
    await journal.append([{ a: 1 }], "host", untold);
    disk.fill();
    const lost = expect(journal.append([{ a: 2 }, large], "host", () => expect.unreachable())).rejects.toThrow(
      "aborted",
    );
    await waiting.promise;
    await Promise.all([journal.close(), lost]);
    expect(fatal).toEqual([]);
    const next = await open(disk.dir);
    expect(next.records).toEqual([{ a: 1 }]);
  },
);

test.skipIf(!root)("what others write to the disk is seen before a permit is taken", async () => {
  const disk = tinyDisk();
  const journal = await open(disk.dir);
  expect(journal.fullBecause()).toBeUndefined();
  disk.fill();
  await vi.waitFor(() => expect(journal.fullBecause()).toMatch(/has 0 bytes left, 8192 are kept for releases/), 5_000);
});
