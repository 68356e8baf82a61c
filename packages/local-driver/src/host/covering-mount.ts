import type { MountLine } from "@holdfast/model/mountinfo";

/** The mount that a walk along this path ends in, as the kernel walks: from the root, on each step into what is mounted on top there. */
export function coveringMount(lines: readonly MountLine[], path: string): MountLine | undefined {
  const ids = new Set(lines.map((line) => line.id));
  const children = Map.groupBy(lines, (line) => line.parent);
  let at = lines.find((line) => line.path === "/" && (!ids.has(line.parent) || line.parent === line.id));
  const descend = (place: string) => {
    for (;;) {
      const on = at === undefined ? undefined : children.get(at.id)?.find((it) => it.path === place && it !== at);
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
  const inside = line.path === "/" ? path : path.slice(line.path.length);
  const joined = `${line.root === "/" ? "" : line.root}${inside === "/" ? "" : inside}`;
  return joined === "" ? "/" : joined;
}
