/**
 * A journal that was cut or changed on the disk, read as the agent reads it: through the file, the fold and the ledger. What
 * is accepted is always the fold of the records before the damage; a torn tail is cut, anything else is damage that is named,
 * and with which nothing is journalled any more.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { noFailpoints } from "@holdfast/node-agent/failpoints";
import { createModelAgent, permitOrder, releaseOrder } from "@holdfast/node-agent/testing/model-agent";
import { openJournal } from "@holdfast/node-agent/volumes/journal";
import { encodeFrame, encodeHeader, journalFormat, readJournal } from "@holdfast/node-agent/volumes/journal-format";
import { createLedger, type Folded, foldRecords } from "@holdfast/node-agent/volumes/ledger";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createSeededRandom, type SeededRandom } from "../local-driver/seeded-random.ts";
import { sample } from "../support/full.ts";

const machine = "m-1";
const uid = "5a2d";
const wanted = 200;
const volumeCount = 5;
const caller = new AbortController().signal;
type Entry = { readonly v?: string };

/** What the real ledger writes while claims come and go, two at a time, and the host boots once in between. */
const livedThrough = async (): Promise<readonly Entry[]> => {
  const agent = createModelAgent();
  await agent.start();
  const permit = (ctr: number) => {
    const oldestLiveEpoch = { gen: 1, ctr: Math.max(1, ctr - 1) };
    const order = permitOrder(`c${ctr}`, ctr, {
      accessMode: "MULTI_NODE_READER_ONLY",
      readOnly: true,
      oldestLiveEpoch,
    });
    return agent.volumes().publish(order, caller);
  };
  const rounds = 6;
  for (let ctr = 1; ctr <= rounds; ctr += 1) {
    expect((await permit(ctr)).kind).toBe("published");
    if (ctr > 1)
      expect((await agent.volumes().release(releaseOrder(`c${ctr - 1}`, ctr - 1), caller)).kind).toBe("released");
    if (ctr === 3) {
      agent.crash();
      await agent.start({ rebooted: true });
      expect((await permit(ctr)).kind).toBe("published");
    }
  }
  const { records } = agent.disk();
  agent.crash();
  return records as readonly Entry[];
};

/** The life of one volume is that of five, each of which begins somewhat later. */
const interleaved = (life: readonly Entry[]): readonly Entry[] => {
  const lines = Array.from({ length: volumeCount }, (_, at) => {
    const renamed = JSON.parse(JSON.stringify(life).replaceAll("uid-1", `uid-${at + 1}`)) as Entry[];
    return at === 0 ? renamed : renamed.filter(({ v }) => v !== undefined);
  });
  const mixed: Entry[] = [];
  for (let step = 0; lines.some((line) => line.length > 0); step += 1)
    for (const [at, line] of lines.entries()) if (step >= at * 4) mixed.push(...line.splice(0, 1));
  return mixed.slice(0, wanted);
};

interface Written {
  readonly bytes: Buffer;
  /** Where the header and each frame end. */
  readonly ends: readonly number[];
  /** The fold of the first n frames. */
  folded(frames: number): Folded;
}

const write = (entries: readonly Entry[]): Written => {
  const frames: Entry[][] = [];
  // One, two or three records a frame, as commits share them.
  for (let at = 0; at < entries.length; at += frames.at(-1)?.length ?? 1)
    frames.push(entries.slice(at, at + 1 + (frames.length % 3)));
  const buffers = [
    encodeHeader({ format: journalFormat, uid, machine }),
    ...frames.map((records, at) => encodeFrame(at + 1, records)),
  ];
  const ends: number[] = [];
  for (const buffer of buffers) ends.push((ends.at(-1) ?? 0) + buffer.length);
  const known = new Map<number, Folded>();
  return {
    bytes: Buffer.concat(buffers),
    ends,
    folded(count) {
      const found = known.get(count) ?? foldRecords(frames.slice(0, count).flat());
      known.set(count, found);
      return found;
    },
  };
};

describe("a journal of 200 records", () => {
  let dir: string;
  let journal: Written;
  let frameCount: number;

  beforeAll(async () => {
    dir = mkdtempSync(path.join(tmpdir(), "hf-damage-"));
    const entries = interleaved(await livedThrough());
    expect(entries).toHaveLength(wanted);
    journal = write(entries);
    frameCount = journal.ends.length - 1;
    expect(journal.folded(frameCount).fault).toBeUndefined();
    expect(journal.folded(frameCount).volumes.size).toBe(volumeCount);
  });
  afterAll(() => rmSync(dir, { recursive: true, force: true }));

  const file = (): string => path.join(dir, "journal");
  const open = () => {
    const options = { dir, machine, failpoint: noFailpoints, maxBytes: 1 << 30, minFreeBytes: 0 };
    return openJournal({ ...options, newUid: () => "another", onFatal: (error) => expect(error).toBeUndefined() });
  };

  const expectState = (folded: Folded, frames: number, where: string): void => {
    const expected = journal.folded(frames);
    expect(folded.fault, where).toBe(expected.fault);
    expect(folded.agent, where).toEqual(expected.agent);
    expect(folded.volumes, where).toEqual(expected.volumes);
  };

  /** What the agent makes of these bytes, judged from the bytes before the first wrong one. */
  const judge = (bytes: Buffer, firstWrong: number, where: string): "good" | "damaged" => {
    const reading = readJournal(bytes);
    const whole = journal.ends.filter((end) => end <= firstWrong).length - 1;
    if (reading.kind === "newer") throw new Error(`${where}: taken for a newer format`);
    if (reading.kind === "damaged") {
      // What could be read before the damage is known, so that what may be mounted is.
      expect(reading.journal?.sequence ?? -1, where).toBe(whole);
      if (reading.journal !== undefined) expectState(foldRecords(reading.journal.records), whole, where);
      return "damaged";
    }
    const { header, sequence, records } = reading.journal;
    expect(header, where).toEqual({ format: journalFormat, uid, machine });
    expect([whole, whole + 1], where).toContain(sequence);
    expectState(foldRecords(records), sequence, where);
    return "good";
  };

  test("[I4] cut at any byte: the fold of the whole frames before, and a header that is not whole is damage", () => {
    const step = sample(1, Math.max(1, Math.floor(journal.bytes.length / 3_000)));
    for (let length = 0; length < journal.bytes.length; length += step) {
      const verdict = judge(journal.bytes.subarray(0, length), length, `cut at ${length}`);
      // A header that lacks only its line break is whole.
      expect(verdict, `cut at ${length}`).toBe(length >= (journal.ends[0] ?? 0) - 1 ? "good" : "damaged");
    }
  });

  test("[I4] cut at both sides of every frame: opened, cut, gone on with, and opened again", async () => {
    const places = journal.ends
      .slice(1)
      .flatMap((end, at) => [end - 2, end - 1, end].map((length) => ({ at: at + 1, end, length })));
    for (const { at, end, length } of places.filter((_, index) => index % sample(1, 7) === 0)) {
      writeFileSync(file(), journal.bytes.subarray(0, length));
      const whole = length >= end - 1 ? at : at - 1;
      const first = await open();
      const ledger = createLedger(first);
      expect(ledger.damage).toBeUndefined();
      expectState(
        {
          agent: ledger.agent(),
          volumes: new Map([...ledger.volumes()].map((v) => [v.ref.volumeUid, v])),
          fault: undefined,
        },
        whole,
        `cut at ${length}`,
      );
      expect(ledger.uid).toBe(uid);
      await ledger.commitAgent({ type: "promised-gen", gen: 77 });
      await first.close();
      const second = await open();
      const again = createLedger(second);
      expect(again.damage).toBeUndefined();
      expect(again.agent()).toEqual({ ...journal.folded(whole).agent, promisedGen: 77 });
      expect(new Map([...again.volumes()].map((v) => [v.ref.volumeUid, v]))).toEqual(journal.folded(whole).volumes);
      await second.close();
    }
  });

  const flipped = (random: SeededRandom): { readonly copy: Buffer; readonly byte: number; readonly bit: number } => {
    const copy = Buffer.from(journal.bytes);
    const byte = random.integer(copy.length);
    const bit = random.integer(8);
    copy[byte] = (copy[byte] ?? 0) ^ (1 << bit);
    return { copy, byte, bit };
  };
  const seed = sample(Date.now() % 2 ** 31, 4);

  test(`[I4] one bit flipped, anywhere: damaged, or the whole of it; never another state (seed ${seed})`, () => {
    const random = createSeededRandom(seed);
    for (let run = 0; run < sample(100_000, 3_000); run += 1) {
      const { copy, byte, bit } = flipped(random);
      const where = `bit ${bit} of byte ${byte}`;
      // Only the very last line break can be repaired.
      expect(judge(copy, byte, where), where).toBe(byte === copy.length - 1 ? "good" : "damaged");
    }
  });

  test(`[I4] [I6] one bit flipped: the file stays as it was found, nothing is journalled, and it says why (seed ${seed})`, async () => {
    const random = createSeededRandom(seed + 1);
    for (let run = 0; run < sample(2_000, 100); run += 1) {
      const { copy, byte } = flipped(random);
      if (byte === copy.length - 1) continue;
      writeFileSync(file(), copy);
      const opened = await open();
      const ledger = createLedger(opened);
      expect(ledger.damage).toMatch(/damaged at byte \d+/);
      expect(ledger.fullBecause()).toBe(ledger.damage);
      await expect(ledger.commitAgent({ type: "promised-gen", gen: 77 })).rejects.toThrow("damaged");
      await opened.close();
      expect(readFileSync(file()).equals(copy)).toBe(true);
    }
  });

  test("[I4] a record that the machine does not allow is damage, not skipped", () => {
    const reading = readJournal(journal.bytes);
    if (reading.kind !== "good") throw new Error(reading.kind);
    const { records } = reading.journal;
    const isStageIntent = (entry: unknown): boolean => (entry as { r?: { type: string } }).r?.type === "stage-intent";
    const at = records.findIndex(isStageIntent);
    const without = records.filter((_, index) => index !== at);
    expect(foldRecords(without).fault).toMatch(/^volume uid-1: staged in a stage that is/);
  });
});
