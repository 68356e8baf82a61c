import type { MountLine } from "@holdfast/model/mountinfo";
import type { MountView } from "../domain/mounts.ts";
import { showsMark } from "../domain/mounts.ts";
import { isUnder } from "../domain/paths.ts";

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
