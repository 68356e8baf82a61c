import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import type { Claim } from "@holdfast/shared/gen/holdfast/v1/claim";
import type { Cluster } from "../test/harness/cluster.ts";
import { mountedAt } from "./look-at-host.ts";
import { createScheduler } from "./scheduler.ts";

const mib = 1024n * 1024n;

const inMib = (bytes: number | bigint): string => `${Math.round(Number(bytes) / 2 ** 20)} MiB`;

const read = async (claim: Claim, file: string): Promise<string> =>
  (await readFile(path.join(claim.hostPath, file), "utf8")).trim();

const expectEqual = (found: unknown, wanted: unknown, what: string): void => {
  if (found !== wanted) throw new Error(`${what}: expected ${JSON.stringify(wanted)}, found ${JSON.stringify(found)}`);
};

const only = <T>([first]: readonly T[]): T => {
  if (first === undefined) throw new Error("an empty answer");
  return first;
};

/**
 * The steps of the demo, each printed when it is done. Answers the trace of the claim of two volumes.
 */
export const walk = async (cluster: Cluster, say: (text: string) => void): Promise<string> => {
  const scheduler = createScheduler(cluster, "node-a");
  let step = 0;
  const done = (text: string): void => {
    step += 1;
    say(`${String(step).padStart(4)}. ${text}`);
  };
  const note = (text: string): void => say(`        ${text}`);
  say("");

  done(
    `created volume demo/data, 64 MiB; the driver calls it ${await scheduler.create({ id: "data", bytes: 64n * mib })}`,
  );

  const data = only(await scheduler.claim("web-1", "data"));
  const small = await mountedAt(data.hostPath);
  done(`claimed it for workload web-1 on node-a: attached, staged, published at ${data.hostPath}`);
  // Where no loop device can be made volumes are directories, which can do less.
  const image = small.source.startsWith("/dev/loop");
  note(`(the mount table: ${image ? "" : "a directory of the host's "}${small.type} on ${small.source})`);

  const early = "written through the mount";
  await writeFile(path.join(data.hostPath, "early.txt"), `${early}\n`);
  done("wrote early.txt through the mount");

  await scheduler.snapshot("data", "monday", !image);
  done(
    image
      ? "cut snapshot demo/monday while the volume is mounted: the filesystem is synced and held still for it"
      : "cut snapshot demo/monday while the volume is mounted (of a directory: its files, copied one after another)",
  );

  const late = "written after the snapshot";
  await writeFile(path.join(data.hostPath, "late.txt"), `${late}\n`);
  done("wrote late.txt, which the snapshot does not have");

  done("asked what there is to say of it (holdfast volume explain):");
  for (const finding of await scheduler.explain("data")) note(finding);

  const { bytes, owed } = await scheduler.expand("data", 128n * mib);
  expectEqual(bytes, 128n * mib, "the expanded volume's size");
  done(`expanded it to ${inMib(bytes)}, in use`);
  const expectGrown = async ({ hostPath }: Claim): Promise<void> => {
    const { size } = await mountedAt(hostPath);
    if (size < small.size + Number(32n * mib)) throw new Error(`the filesystem did not grow: ${inMib(size)}`);
    note(`(the filesystem: ${inMib(small.size)} before, ${inMib(size)} now)`);
  };
  if (!image) note("(of a directory the size is a number that nothing enforces)");
  else if (owed === undefined) await expectGrown(data);
  else if (!owed.includes("CAP_SYS_RESOURCE")) throw new Error(`the filesystem does not grow: ${owed}`);
  else
    note("(here the driver has no CAP_SYS_RESOURCE: a mounted ext4 stays as it is, and grows when it is mounted next)");

  await scheduler.create({ id: "restored", bytes: 64n * mib, from: "monday" });
  done("restored the snapshot into a second volume, demo/restored, while the first stays mounted");

  await scheduler.release("web-1");
  done("released the claim: unpublished, unstaged, verified in the mount table, detached");

  const [now, then] = await scheduler.claim("web-2", "data", "restored");
  if (now === undefined || then === undefined) throw new Error("the set does not have two claims");
  done("claimed both for workload web-2 as one set: all or none");
  for (const { volume, hostPath } of [now, then]) {
    const { type, source } = await mountedAt(hostPath);
    note(`(the mount table: ${volume} is ${type} on ${source})`);
  }
  if (image && owed !== undefined) await expectGrown(now);

  expectEqual(await read(now, "early.txt"), early, "early.txt of data");
  expectEqual(await read(now, "late.txt"), late, "late.txt of data");
  expectEqual(await read(then, "early.txt"), early, "early.txt of restored");
  expectEqual(await read(then, "late.txt").catch(() => undefined), undefined, "late.txt of restored");
  done("compared: data has both files, restored has what the snapshot had");
  note(`early.txt in both: ${early}`);
  note(`late.txt only in data: ${late}`);

  await scheduler.release("web-2");
  done("released both");

  await scheduler.deleteVolume("restored");
  await scheduler.deleteSnapshot("monday");
  await scheduler.deleteVolume("data");
  done("deleted both volumes and the snapshot");
  return now.traceId;
};
