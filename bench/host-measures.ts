import { spawnSync } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Product } from "./product.ts";
import { keptBytes } from "./support/kept-bytes.ts";
import { millisecondsOf, run } from "./support/load.ts";
import { processFigures } from "./support/process-figures.ts";
import { type Spread, spreadOf } from "./support/spread.ts";

/** What much on one host costs its agent. */
export interface PublicationMemory {
  readonly publications: number;
  /** Garbage collected; and the whole process before and with them. */
  readonly keptPerPublication: number;
  readonly rssBytes: { readonly without: number; readonly with: number };
}

export interface LongMountTable {
  readonly lines: { readonly short: number; readonly long: number };
  readonly claim: { readonly short: Spread; readonly long: Spread };
  readonly release: { readonly short: Spread; readonly long: Spread };
}

const range = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index);
const node = "node-0";

/** One claim each of so many volumes, all held at the same time. */
export const measurePublications = async (product: Product, count: number): Promise<PublicationMemory> => {
  const agent = product.cluster.node(node).agent();
  const rss = async (): Promise<number> => (await processFigures(agent.pid)).rssBytes;
  // Warm: what the first claim loads and compiles is no cost of a publication.
  await product.claim(0);
  await product.release(0);
  const [kept, without] = [await keptBytes(agent), await rss()];
  await run(range(count), 32, product.claim);
  const held = await keptBytes(agent);
  const figures = {
    publications: count,
    keptPerPublication: (held - kept) / count,
    rssBytes: { without, with: await rss() },
  };
  await run(range(count), 32, product.release);
  return figures;
};

/** Each bind of a tree into itself doubles it; two trees of these sizes make ten thousand mounts and more. */
const script = (dir: string): string =>
  [13, 11]
    .flatMap((doublings) => {
      const tree = path.join(dir, `t${doublings}`);
      return [
        `mkdir -p ${tree}`,
        `mount -t tmpfs none ${tree}`,
        `mount --make-private ${tree}`,
        ...range(doublings).map((at) => `mkdir ${tree}/${at} && mount --rbind ${tree} ${tree}/${at}`),
      ];
    })
    .join(" && ");

const shell = (command: string): void => {
  const { status, stderr } = spawnSync("sh", ["-ec", command], { encoding: "utf8" });
  if (status !== 0) throw new Error(`the long mount table: ${stderr}`);
};

/** So many mounts while it runs, and none of them afterwards. */
const withManyMounts = async <T>(act: () => Promise<T>): Promise<T> => {
  const dir = await mkdtemp(path.join(tmpdir(), "hfb-many-"));
  try {
    shell(script(dir));
    return await act();
  } finally {
    // Lazily: the trees go at once, with all that is in them.
    shell(`cd ${dir} && for tree in *; do umount --lazy $tree || true; done`);
    await rm(dir, { recursive: true, force: true });
  }
};

const linesNow = async (): Promise<number> => (await readFile("/proc/self/mountinfo", "utf8")).split("\n").length - 1;

/** Claims and releases one at a time while the host's mount table is short, then long. */
export const measureLongTable = async (product: Product, rounds: number): Promise<LongMountTable> => {
  const measured = async () => {
    const claims: number[] = [];
    const releases: number[] = [];
    for (let round = 0; round < rounds; round += 1) {
      claims.push(...(await run([0], 1, product.claim)).samples.map(millisecondsOf));
      releases.push(...(await run([0], 1, product.release)).samples.map(millisecondsOf));
    }
    return { lines: await linesNow(), claim: spreadOf(claims), release: spreadOf(releases) };
  };
  await measured();
  const short = await measured();
  const long = await withManyMounts(measured);
  return {
    lines: { short: short.lines, long: long.lines },
    claim: { short: short.claim, long: long.claim },
    release: { short: short.release, long: long.release },
  };
};
