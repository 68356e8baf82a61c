/** /proc/self/mountinfo as proc(5) describes it: one mount a line, fields by spaces, specials as octal escapes. */
import type { MountEntry } from "../ports.ts";

/** With its place in the tree of mounts: what hides what is only to be told by that. */
export interface MountLine extends MountEntry {
  readonly id: number;
  readonly parent: number;
}

/** All lines; one that cannot be read is an error, since it might be the one that matters. */
export function parseMountinfo(text: string): readonly MountLine[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map(parseLine);
}

/** `36 35 98:0 /root /target rw,noatime master:1 - ext4 /dev/x rw`: none or several optional fields stand before the dash. */
function parseLine(line: string): MountLine {
  const fields = line.split(" ");
  const dash = fields.indexOf("-", 6);
  const [id, parent, dev, root, mountPoint, options] = fields;
  const [fsType, source, superOptions] = dash < 0 ? [] : fields.slice(dash + 1);
  if (
    id === undefined ||
    parent === undefined ||
    dev === undefined ||
    !/^\d+ \d+ \d+:\d+$/.test(`${id} ${parent} ${dev}`)
  )
    throw unreadable(line);
  if (root === undefined || mountPoint === undefined || options === undefined || fsType === undefined)
    throw unreadable(line);
  return {
    id: Number(id),
    parent: Number(parent),
    dev,
    root: unescapeOctal(root),
    mountPoint: unescapeOctal(mountPoint),
    options: options.split(","),
    fsType: unescapeOctal(fsType),
    source: unescapeOctal(source ?? ""),
    superOptions: unescapeOctal(superOptions ?? "").split(","),
  };
}

function unreadable(line: string): Error {
  return new Error(`a line of the mount table cannot be read: ${JSON.stringify(line.slice(0, 200))}`);
}

/** Bytes, not characters: any byte of a name in UTF-8 may be escaped. */
function unescapeOctal(field: string): string {
  if (!field.includes("\\")) return field;
  const raw = Buffer.from(field, "utf8");
  const bytes: number[] = [];
  for (let at = 0; at < raw.length; at += 1) {
    const digits = raw.toString("latin1", at + 1, at + 4);
    const escaped = raw[at] === 0x5c && /^[0-3][0-7]{2}$/.test(digits);
    bytes.push(escaped ? Number.parseInt(digits, 8) : (raw[at] ?? 0));
    if (escaped) at += 3;
  }
  return Buffer.from(bytes).toString("utf8");
}

/** The mount that a walk along this path ends in, as the kernel walks: from the root, on each step into what is mounted on top there. */
export function coveringMount(lines: readonly MountLine[], path: string): MountLine | undefined {
  const ids = new Set(lines.map((line) => line.id));
  const children = Map.groupBy(lines, (line) => line.parent);
  let at = lines.find((line) => line.mountPoint === "/" && (!ids.has(line.parent) || line.parent === line.id));
  const descend = (place: string) => {
    for (;;) {
      const on = at === undefined ? undefined : children.get(at.id)?.find((it) => it.mountPoint === place && it !== at);
      if (on === undefined) return;
      at = on;
    }
  };
  descend("/");
  for (let slash = path.indexOf("/", 1); slash > 0; slash = path.indexOf("/", slash + 1)) descend(path.slice(0, slash));
  descend(path);
  return at;
}

/** The path inside of the filesystem that is mounted there. */
export function rootOf(line: MountLine, path: string): string {
  const inside = line.mountPoint === "/" ? path : path.slice(line.mountPoint.length);
  const joined = `${line.root === "/" ? "" : line.root}${inside === "/" ? "" : inside}`;
  return joined === "" ? "/" : joined;
}
