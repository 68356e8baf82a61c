/** What the mount table proves. Pure questions about lines that an adapter has read. */
import type { MountLine } from "@holdfast/model/mountinfo";
import { isUnder, type VolumePaths } from "./paths.ts";
import type { MountMark } from "./types.ts";

/** A mount that another process sees, in its own mount namespace. */
export interface ForeignMount {
  readonly line: MountLine;
  readonly pid: number;
  readonly command: string;
}

/** One look at the mount table. */
export interface MountView {
  /** The mounts at exactly this path, the topmost last. */
  at(path: string): readonly MountLine[];
  /** At this path or below it. */
  under(path: string): readonly MountLine[];
  /** In this namespace: all whose device and root are those of a mark, or whose root lies below it. */
  sharing(marks: readonly MountMark[]): readonly MountLine[];
  /** The same in all other namespaces that were read. Empty for a view of the own namespace alone. */
  foreign(marks: readonly MountMark[]): readonly ForeignMount[];
  /** The mounts that a path lies on, the path itself left out. */
  covering(path: string): readonly MountLine[];
}

/** "Deleted" is how the kernel marks a bind whose source is gone; the mark stays what it was. */
const deletedSuffix = "//deleted";

const rootOf = ({ root }: MountLine): string =>
  root.endsWith(deletedSuffix) ? root.slice(0, -deletedSuffix.length) : root;

export const markOf = (line: MountLine): MountMark => ({ device: line.device, root: rootOf(line) });

export const showsMark = (line: MountLine, mark: MountMark): boolean =>
  line.device === mark.device && isUnder(rootOf(line), mark.root);

/**
 * The mount at exactly this path, if it sits on what the path lies on (a mount below a directory that was itself mounted
 * over is not reachable by the path). Undefined: the plugin said OK and there is no mount here.
 */
export const seenAt = (view: MountView, path: string): MountLine | undefined => {
  const lines = view.at(path);
  const covering = view.covering(path);
  // In a chroot the mount below everything may have no line at all.
  if (covering.length === 0) return lines.at(-1);
  const bases = new Set([...covering, ...lines].map((line) => line.id));
  return lines.findLast((line) => bases.has(line.parent));
};

/** Marks of the mounts at or below these paths; what has a device of its own tells the volume from the host. */
export const marksUnder = (view: MountView, paths: readonly string[]): readonly MountMark[] => {
  const marks = new Map<string, MountMark>();
  for (const line of paths.flatMap((path) => view.under(path))) {
    const mark = markOf(line);
    marks.set(`${mark.device} ${mark.root}`, mark);
  }
  return [...marks.values()];
};

export interface Leftover {
  readonly path: string;
  readonly pid?: number;
  readonly command?: string;
}

/**
 * What of the volume is still mounted. Paths always; for a volume that belongs to one node also its file system wherever
 * it shows up, since a container with a private copy of a mount keeps the device in use.
 */
export const leftovers = (
  view: MountView,
  wanted: {
    readonly paths: readonly string[];
    readonly marks: readonly MountMark[];
    readonly before: readonly number[];
    readonly singleNode: boolean;
  },
): readonly Leftover[] => {
  const found: Leftover[] = wanted.paths.flatMap((path) => view.under(path)).map((line) => ({ path: line.path }));
  if (!wanted.singleNode || wanted.marks.length === 0) return found;
  const known = new Set(wanted.before);
  for (const line of view.sharing(wanted.marks)) {
    if (!known.has(line.id) && !found.some((it) => it.path === line.path)) found.push({ path: line.path });
  }
  // A mark that the host itself showed before is the host's: other namespaces have copies of that, not of the volume.
  const own = wanted.marks.filter((mark) => !view.sharing([mark]).some((line) => known.has(line.id)));
  for (const { line, pid, command } of view.foreign(own)) {
    if (!known.has(line.id)) found.push({ path: line.path, pid, command });
  }
  return found;
};

/** Publications of the volume that nobody in the journal explains. */
export function strays(view: MountView, volumePaths: VolumePaths, explained: readonly string[]): readonly MountLine[] {
  return view.under(volumePaths.publish).filter((line) => !explained.some((path) => isUnder(line.path, path)));
}
