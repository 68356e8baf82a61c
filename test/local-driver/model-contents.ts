/** Writing what the model believes, and reading it back: through the mount or the device that a workload would have. */
import { open, readdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { type ModelContents, type ModelVolume, slotBytes, type Written } from "./model-world.ts";
import { patternOf } from "./seeded-random.ts";
import { kindFacts } from "./volume-kinds.ts";

/** At a target or a staging path of a mount volume, at a target of a block volume. */
export const writeContents = async (
  volume: Pick<ModelVolume, "kind">,
  place: string,
  key: string,
  what: Written | undefined,
): Promise<void> => {
  if (kindFacts[volume.kind].access === "mount") {
    const file = path.join(place, key);
    if (what === undefined) await rm(file);
    else await writeFile(file, patternOf(what.seed, what.length));
    return;
  }
  const device = await open(place, "r+");
  try {
    const bytes = what === undefined ? Buffer.alloc(slotBytes) : patternOf(what.seed, slotBytes);
    await device.write(bytes, 0, slotBytes, Number(key) * slotBytes);
    // A device keeps what was written in the cache of its node: the image has it after this.
    await device.sync();
  } finally {
    await device.close();
  }
};

const fileProblems = async (root: string, contents: ModelContents): Promise<readonly string[]> => {
  const names = (await readdir(root)).filter((name) => name !== "lost+found");
  const problems = names.filter((name) => !contents.has(name)).map((name) => `${name} should not be there`);
  for (const [name, { seed, length }] of contents) {
    const bytes = await readFile(path.join(root, name)).catch(() => undefined);
    if (bytes === undefined) problems.push(`${name} is lost`);
    else if (!bytes.equals(patternOf(seed, length)))
      problems.push(`${name} has other bytes (${bytes.length}, ${length} expected)`);
  }
  return problems;
};

const slotProblems = async (file: string, contents: ModelContents): Promise<readonly string[]> => {
  const handle = await open(file, "r");
  try {
    const problems: string[] = [];
    for (let slot = 0; ; slot += 1) {
      const { bytesRead, buffer } = await handle.read(Buffer.alloc(slotBytes), 0, slotBytes, slot * slotBytes);
      if (bytesRead === 0) return problems;
      const what = contents.get(String(slot));
      const expected = what === undefined ? Buffer.alloc(bytesRead) : patternOf(what.seed, bytesRead);
      if (!buffer.subarray(0, bytesRead).equals(expected)) problems.push(`slot ${slot} has other bytes`);
    }
  } finally {
    await handle.close();
  }
};

/** What is there otherwise than the model has it. Of a block volume the place may be its device or its image. */
export const contentProblems = async (
  volume: Pick<ModelVolume, "kind" | "contents">,
  place: string,
): Promise<readonly string[]> =>
  kindFacts[volume.kind].access === "mount"
    ? await fileProblems(place, volume.contents)
    : await slotProblems(place, volume.contents);
