import { describe, expect, test } from "vitest";
import {
  abandonedIds,
  applyDocker,
  type DockerBook,
  type DockerRecord,
  type MountId,
  soleIdBeside,
} from "./docker-book.ts";

const volume = "data";
const after = (...records: readonly DockerRecord[]): DockerBook | undefined =>
  records.reduce<DockerBook | undefined>((book, record) => book && applyDocker(book, record), {});
const want = (id: string, daemon = "d1"): DockerRecord => ({ volume, type: "wanted", id, daemon });
const answered = (id: string): DockerRecord => ({ volume, type: "answered", id });
const dropped = (...ids: readonly string[]): DockerRecord => ({ volume, type: "dropped", ids });
const settled: DockerRecord = { volume, type: "settled" };
const row = (id: string, daemon = "d1", isAnswered = false): MountId => ({ id, daemon, answered: isAnswered });

describe("the ids of a volume's mounts", () => {
  test.each<readonly [string, readonly DockerRecord[], readonly MountId[] | undefined]>([
    ["are kept in the order in which they came", [want("b"), want("a")], [row("b"), row("a")]],
    [
      "are the same when they are asked for again, by another dockerd too",
      [want("a"), want("b"), want("a", "d2")],
      [row("a", "d2"), row("b")],
    ],
    [
      "stay answered when they are asked for again",
      [want("a"), answered("a"), want("a", "d2")],
      [row("a", "d2", true)],
    ],
    ["go one by one", [want("a"), want("b"), dropped("a")], [row("b")]],
    ["[DB2] leave the volume in the book until its claim is on its way out", [want("a"), dropped("a")], []],
    ["are gone then", [want("a"), dropped("a"), settled], undefined],
    ["stay when one came meanwhile", [want("a"), dropped("a"), want("b"), settled], [row("b")]],
    ["that are not known change nothing", [want("a"), dropped("x"), answered("x")], [row("a")]],
    ["of a volume that is not known change nothing", [dropped("x"), answered("x"), settled], undefined],
  ])("%s", (_, records, ids) => {
    expect(after(...records)?.[volume]).toEqual(ids);
  });

  test("one writer on one node is the first id alone", () => {
    const ids = [row("a"), row("b")];
    expect(soleIdBeside(ids, "b", "SINGLE_NODE_SINGLE_WRITER")).toBe("a");
    expect(soleIdBeside(ids, "a", "SINGLE_NODE_SINGLE_WRITER")).toBeUndefined();
    expect(soleIdBeside(ids, "b", "SINGLE_NODE_WRITER")).toBeUndefined();
    expect(soleIdBeside([], "b", "SINGLE_NODE_SINGLE_WRITER")).toBeUndefined();
  });
});

describe("an id that nothing will give back", () => {
  const facts = { daemon: "d2", used: false, asked: () => false, callsOver: false } as const;
  const gone = (id: MountId, change: Partial<Parameters<typeof abandonedIds>[1]> = {}) =>
    abandonedIds([id], { ...facts, ...change }).length === 1;

  test.each<readonly [string, MountId, Partial<Parameters<typeof abandonedIds>[1]>, boolean]>([
    ["of a former dockerd, unused", row("a", "d1", true), {}, true],
    ["of a former dockerd, in use", row("a", "d1", true), { used: true }, false],
    ["of a former dockerd, where use cannot be seen", row("a", "d1", true), { used: undefined }, false],
    ["of the dockerd that is there", row("a", "d2", true), {}, false],
    ["while no dockerd is known", row("a", "d1", true), { daemon: "" }, false],
    ["that came while none was known", row("a", "", true), {}, false],
    ["never answered, and its call may come again", row("a", "d2"), {}, false],
    ["never answered, and no call can come any more", row("a", "d2"), { callsOver: true }, true],
    ["never answered, and asked for in this life", row("a", "d2"), { callsOver: true, asked: () => true }, false],
    ["answered, long ago", row("a", "d2", true), { callsOver: true }, false],
  ])("%s", (_, id, change, expected) => {
    expect(gone(id, change)).toBe(expected);
  });
});
