import { createHash } from "node:crypto";
import path from "node:path";
import { DriverError } from "../domain/driver-error.ts";
import type { DriverRecord } from "../domain/records.ts";
import { errnoOf, hostFailure } from "../host/host-failure.ts";
import type { ContentPaths } from "../ports.ts";
import { recordReaders } from "./record-readers.ts";
import type { StateFiles } from "./state-files.ts";

type Kind = DriverRecord["kind"];

/** Goes up when an older driver would misread the directory. */
const layoutVersion = 1;

const kinds: readonly Kind[] = Object.keys(recordReaders) as Kind[];
const folders: Readonly<Record<Kind, string>> = { volume: "volumes", snapshot: "snapshots", group: "groups" };

/** Where everything of one state directory is. `root` is as the kernel spells it. */
export interface Layout {
  readonly root: string;
  /** The records of one kind, a directory each. */
  folder(kind: Kind): string;
  /** What is not there yet. */
  readonly making: string;
  /** What is not there any more. */
  readonly trash: string;
}

export function layoutOf(root: string): Layout {
  return {
    root,
    folder: (kind) => path.join(root, folders[kind]),
    making: path.join(root, "making"),
    trash: path.join(root, "trash"),
  };
}

/** What the directory of one record holds. */
export const recordFile = (directory: string): string => path.join(directory, "record.json");
export const unfinishedFile = (directory: string): string => path.join(directory, "record.json.new");
export const contentsOf = (directory: string): ContentPaths => ({
  data: path.join(directory, "data"),
  image: path.join(directory, "image"),
});

/** A fixed name, so that a record that cannot be read still tells whose name it bears. */
export const nameMark = (directory: string, name: string): string =>
  path.join(directory, `${markPrefix}${sumOf(name)}`);
export const markPrefix = "name-";
export const sumOf = (name: string): string => createHash("sha256").update(name).digest("hex");

/**
 * Refuses a directory that is not ours and cannot become ours: of another version, or with something else in it. Touches nothing.
 * Answers whether it is ours already.
 */
export async function checkLayout(layout: Layout, files: Pick<StateFiles, "read" | "list">): Promise<boolean> {
  const file = formatFile(layout);
  const marked = await files.read(file, 4096).catch((error: unknown) => {
    if (errnoOf(error) === "ENOENT") return undefined;
    throw hostFailure(`read ${file}`, error);
  });
  if (marked === undefined) await refuseForeign(layout, files);
  else refuseOtherVersion(file, marked);
  return marked !== undefined;
}

/** Makes what is missing. For the holder of the lock. */
export async function prepareLayout(layout: Layout, files: StateFiles): Promise<void> {
  const ours = await checkLayout(layout, files);
  try {
    await files.makePrivate(layout.root);
    for (const place of placesOf(layout)) await files.makeDirectory(place);
    // Also when nothing is new: a life that was killed may have seen names that never reached the disk.
    await files.syncDirectory(layout.root);
    if (ours) return;
    // Last, and by rename: where it is, all of the rest is.
    const file = formatFile(layout);
    await files.write(`${file}.new`, Buffer.from(`${JSON.stringify({ layout: layoutVersion })}\n`));
    await files.rename(`${file}.new`, file);
    await files.syncDirectory(layout.root);
  } catch (error) {
    throw hostFailure(`make a state directory of ${layout.root}`, error);
  }
}

const formatFile = ({ root }: Layout): string => path.join(root, "format.json");
const placesOf = (layout: Layout): readonly string[] => [...kinds.map(layout.folder), layout.making, layout.trash];

function refuseOtherVersion(file: string, marked: Buffer): void {
  const found = versionIn(marked);
  if (found === layoutVersion) return;
  const what = found === undefined ? "cannot be read" : `says layout ${found}, and this driver knows ${layoutVersion}`;
  throw new DriverError(
    "FAILED_PRECONDITION",
    `${file} ${what}: run the version of the driver that wrote it, or restore the file; nothing was changed`,
  );
}

function versionIn(marked: Buffer): number | undefined {
  try {
    const { layout } = JSON.parse(marked.toString("utf8")) as { readonly layout?: unknown };
    return typeof layout === "number" ? layout : undefined;
  } catch {
    return undefined;
  }
}

/** A start that was killed before it was through leaves empty directories of ours; a fresh filesystem has a lost+found. */
async function refuseForeign(layout: Layout, files: Pick<StateFiles, "list">): Promise<void> {
  const { root } = layout;
  const places = placesOf(layout);
  const harmless = new Set(["lock", "format.json.new", "lost+found"]);
  const foreign: string[] = [];
  for (const { name, kind } of await files.list(root)) {
    if (harmless.has(name)) continue;
    const at = path.join(root, name);
    if (kind === "directory" && places.includes(at) && (await files.list(at)).length === 0) continue;
    foreign.push(name);
  }
  if (foreign.length === 0) return;
  throw new DriverError(
    "FAILED_PRECONDITION",
    `${root} has no format.json and is not empty (${foreign.sort().slice(0, 5).join(", ")}): restore format.json if it was a state directory, or give the driver a directory of its own; nothing was changed`,
  );
}
