/** /proc/self/mountinfo as proc(5) describes it: one mount a line, fields by spaces, specials as octal escapes. */
import type { MountLine, MountView } from "../domain/mounts.ts";
import { showsMark } from "../domain/mounts.ts";
import { isUnder } from "../domain/paths.ts";

/**
 * One line: `36 35 98:0 /root /target rw,noatime master:1 - ext4 /dev/root rw,errors=continue`. Between the options and
 * the ` - ` stand none or several optional fields. Undefined for what is no such line.
 */
export function parseMountLine(text: string): MountLine | undefined {
  const fields = text.split(" ");
  const dash = fields.indexOf("-", 6);
  const [id, parent, device, root, path, options] = fields;
  const fsType = dash < 0 ? undefined : fields[dash + 1];
  if (id === undefined || parent === undefined || !/^\d+$/.test(id) || !/^\d+$/.test(parent)) return undefined;
  if (device === undefined || !/^\d+:\d+$/.test(device) || fsType === undefined) return undefined;
  if (root === undefined || path === undefined || options === undefined) return undefined;
  return {
    id: Number(id),
    parent: Number(parent),
    device,
    root: unescapeOctal(root),
    path: unescapeOctal(path),
    options: options.split(","),
    fsType: unescapeOctal(fsType),
    source: unescapeOctal(fields[dash + 2] ?? ""),
  };
}

/** Bytes, not characters: a name in UTF-8 may be escaped in any of its bytes. */
function unescapeOctal(field: string): string {
  if (!field.includes("\\")) return field;
  const bytes: number[] = [];
  const raw = Buffer.from(field, "utf8");
  for (let at = 0; at < raw.length; at += 1) {
    const digits = raw.toString("latin1", at + 1, at + 4);
    if (raw[at] === 0x5c && /^[0-3][0-7]{2}$/.test(digits)) {
      bytes.push(Number.parseInt(digits, 8));
      at += 3;
    } else bytes.push(raw[at] ?? 0);
  }
  return Buffer.from(bytes).toString("utf8");
}

/** All lines; a line that cannot be read is an error, since what it hides might be the mount that matters. */
export function parseMountinfo(text: string): readonly MountLine[] {
  const lines: MountLine[] = [];
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const parsed = parseMountLine(line);
    if (parsed === undefined)
      throw new Error(`a line of mountinfo cannot be read: ${JSON.stringify(line.slice(0, 200))}`);
    lines.push(parsed);
  }
  return lines;
}

/**
 * Questions about the mounts of one namespace. Few are asked of one look: going through all lines for each costs less than
 * an index of them, which has to be made anew for every look. Lengths first: nearly every line is settled by them, and a comparison of
 * characters for each of ten thousand costs what a tenth of the look does.
 */
export function mountinfoView(lines: readonly MountLine[]): Omit<MountView, "foreign"> {
  const at = (path: string) => lines.filter((line) => line.path.length === path.length && line.path === path);
  return {
    at,
    under: (path) => lines.filter(({ path: found }) => found.length >= path.length && isUnder(found, path)),
    sharing: (marks) => (marks.length === 0 ? [] : lines.filter((line) => marks.some((mark) => showsMark(line, mark)))),
    covering(path) {
      const above = directoriesAbove(path);
      let nearest = "";
      for (const { path: found } of lines) {
        if (found.length > nearest.length && found === above.get(found.length)) nearest = found;
      }
      return nearest === "" ? [] : at(nearest);
    },
  };
}

/** By their lengths, of which each has one at most. */
function directoriesAbove(path: string): ReadonlyMap<number, string> {
  const above = new Map(path === "/" ? [] : [[1, "/"]]);
  for (let at = path.indexOf("/", 1); at > 0; at = path.indexOf("/", at + 1)) above.set(at, path.slice(0, at));
  return above;
}
