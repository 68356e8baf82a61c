/** /proc/self/mountinfo as proc(5) describes it: one mount a line, fields by spaces, specials as octal escapes. */
export interface MountLine {
  readonly id: number;
  readonly parent: number;
  /** "major:minor" */
  readonly device: string;
  /** The directory of the file system that is mounted; for a bind of a device node, the node's name. */
  readonly root: string;
  readonly path: string;
  /** Per-mount options. */
  readonly options: readonly string[];
  readonly fsType: string;
  readonly source: string;
  /** Options of the file system, not split: few readers need them. */
  readonly superOptions: string;
}

/**
 * One line: `36 35 98:0 /root /target rw,noatime master:1 - ext4 /dev/root rw,errors=continue`. Between the options and
 * the ` - ` stand none or several optional fields. Undefined for what is no such line.
 */
export function parseMountLine(text: string): MountLine | undefined {
  const fields = text.split(" ");
  const dash = fields.indexOf("-", 6);
  const [id, parent, device, root, path, options] = fields;
  const [fsType, source = "", superOptions = ""] = dash < 0 ? [] : fields.slice(dash + 1);
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
    source: unescapeOctal(source),
    superOptions: unescapeOctal(superOptions),
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
      throw new Error(`a line of the mount table cannot be read: ${JSON.stringify(line.slice(0, 200))}`);
    lines.push(parsed);
  }
  return lines;
}
