import { describe, expect, test } from "vitest";
import { attachmentRecord, claimRecord, volumeRecord } from "../testing/record-fixtures.ts";
import type { Segments } from "../volume/volume.ts";
import {
  type CallSubject,
  contains,
  foundAt,
  homesFor,
  type InstancePlace,
  type Reach,
  reachAll,
  reaches,
  reachesOf,
  type Whereabouts,
  whereIs,
  whereText,
} from "./instance-reach.ts";
import type { PluginProfile } from "./plugin-profile.ts";

const place = (node: string, segments: Segments = {}, monolith = true, nodeId = `id-${node}`): InstancePlace => ({
  node,
  nodeId,
  monolith,
  segments,
});
const a = place("a", { host: "a" });
const b = place("b", { host: "b" });
const zoned = (node: string, zone: string, monolith = true) => place(node, { zone }, monolith);

describe("what an instance reaches", () => {
  type Row = readonly [string, PluginProfile["reach"], readonly InstancePlace[], readonly Reach[]];
  const rows: readonly Row[] = [
    ["a single monolith with a segment of its own", "auto", [a], ["own"]],
    ["one for each node", "auto", [a, b], ["own", "own"]],
    ["monoliths in one zone", "auto", [zoned("a", "1"), zoned("b", "1")], ["all", "all"]],
    [
      "one of them in a zone of its own",
      "auto",
      [zoned("a", "1"), zoned("b", "1"), zoned("c", "2")],
      ["all", "all", "own"],
    ],
    ["a node half in the same zone", "auto", [zoned("a", "1"), zoned("b", "1", false)], ["all", "all"]],
    ["a node half elsewhere", "auto", [zoned("a", "1"), zoned("b", "2", false)], ["own", "all"]],
    ["controllers alone", "auto", [place("a", {}, false), place("b", {}, false)], ["all", "all"]],
    ["one monolith without topology", "auto", [place("a")], ["all"]],
    ["several monoliths without topology", "auto", [place("a"), place("b")], ["ambiguous", "ambiguous"]],
    ["one of two without topology", "auto", [a, place("b")], ["own", "ambiguous"]],
    ["a monolith beside a controller alone", "auto", [place("a"), place("b", {}, false)], ["all", "all"]],
    [
      "the same process beside the controller and on its node",
      "auto",
      [place("", {}, true, "id-a"), place("a")],
      ["all", "all"],
    ],
    ["the same with a topology", "auto", [place("", { host: "a" }, true, "id-a"), a], ["own", "own"]],
    [
      "another host beside the controller",
      "auto",
      [place("", {}, true, "id-x"), place("a")],
      ["ambiguous", "ambiguous"],
    ],
    ["keys that differ in case", "auto", [place("a", { Zone: "1" }), place("b", { zone: "1" })], ["all", "all"]],
    ["the profile says all", "all", [a, place("b"), place("c")], ["all", "all", "all"]],
    ["the profile says own", "own", [zoned("a", "1"), zoned("b", "1"), place("c")], ["own", "own", "ambiguous"]],
    [
      "the profile says own, and controller and node half are two processes",
      "own",
      [place("a", { host: "a" }, false)],
      ["own"],
    ],
  ];
  test.each(rows)("%s", (_name, told, places, expected) => {
    const monoliths = places.filter(({ monolith }) => monolith).length;
    if (reachAll(told, monoliths)) expect(new Set(expected)).toEqual(new Set(["all"]));
    const found = reachesOf(places, told);
    expect(places.map((one) => found.get(one))).toEqual(expected);
  });
});

describe("whether an instance reaches a place: every reach beside every place", () => {
  const wheres: Readonly<Record<string, Whereabouts>> = {
    anywhere: { kind: "anywhere" },
    "its place": { kind: "places", lists: [[{ host: "b" }, { host: "a" }]] },
    "another place": { kind: "places", lists: [[{ host: "b" }]] },
    "both places": { kind: "places", lists: [[{ host: "a" }], [{ host: "b" }]] },
    "its node": { kind: "nodes", names: ["a"], ids: [] },
    "another node": { kind: "nodes", names: ["b"], ids: ["id-a"] },
    choose: { kind: "choose", lists: [], preferred: [] },
    unknown: { kind: "unknown" },
  };
  const own = new Set(["anywhere", "its place", "its node"]);
  for (const [name, where] of Object.entries(wheres))
    for (const reach of ["all", "own", "ambiguous"] as const)
      test(`${reach}, ${name}`, () =>
        expect(reaches(a, reach, where)).toBe(reach === "all" || (reach === "own" && own.has(name))));

  test("beside the controller the plugin's own name for the node is compared", () => {
    const beside = place("", { host: "a" }, true, "id-a");
    expect(reaches(beside, "own", { kind: "nodes", names: [""], ids: [] })).toBe(false);
    expect(reaches(beside, "own", { kind: "nodes", names: ["a"], ids: ["id-a"] })).toBe(true);
  });
  test("a place contains a node by all of its segments, keys in any case", () => {
    expect(contains({ Zone: "1" }, { zone: "1", host: "a" })).toBe(true);
    expect(contains({ zone: "1", host: "a" }, { zone: "1" })).toBe(false);
    expect(contains({ zone: "1" }, { zone: "I" })).toBe(false);
  });
});

describe("where a subject is", () => {
  const topology = (
    accessible: readonly Segments[],
    required: readonly Segments[] = [],
    preferred: readonly Segments[] = [],
  ) => ({
    accessible,
    required,
    preferred,
  });
  const unmade = { externalId: "", state: "CREATING" } as const;
  const source = { uid: "u", externalId: "src", sizeBytes: 0 };
  const at = (...lists: readonly (readonly Segments[])[]): Whereabouts => ({ kind: "places", lists });
  type Row = readonly [string, CallSubject, Whereabouts];
  const rows: readonly Row[] = [
    ["a question about the plugin", {}, { kind: "anywhere" }],
    ["a question about a place", { accessible: [{ host: "a" }] }, at([{ host: "a" }])],
    ["a volume by its topology", volumeRecord([], [], { topology: topology([{ host: "a" }]) }), at([{ host: "a" }])],
    ["a volume by its home", volumeRecord([], [], { home: { host: "a" } }), at([{ host: "a" }])],
    [
      "a volume by its binding",
      volumeRecord([], [], { binding: { node: "n", place: { host: "a" } } }),
      at([{ host: "a" }]),
    ],
    [
      "a volume by its attachment",
      volumeRecord([], [attachmentRecord("n1")]),
      { kind: "nodes", names: ["n1"], ids: ["id-n1"] },
    ],
    [
      "a volume by its claim",
      volumeRecord([claimRecord("c", { node: "n2" })]),
      { kind: "nodes", names: ["n2"], ids: [] },
    ],
    [
      "a volume by the node it was made for",
      volumeRecord([], [], { binding: { node: "n3", place: {} } }),
      { kind: "nodes", names: ["n3"], ids: [] },
    ],
    [
      "a volume that nothing tells of",
      volumeRecord(),
      { kind: "unknown", ask: { kind: "volume", externalId: "ext-1" } },
    ],
    ["to be made in its home", volumeRecord([], [], { ...unmade, home: { host: "a" } }), at([{ host: "a" }])],
    [
      "to be made for a claim",
      volumeRecord([], [], { ...unmade, binding: { node: "n", place: { host: "a" } } }),
      at([{ host: "a" }]),
    ],
    [
      "to be made for a claim from a source",
      volumeRecord([], [], {
        ...unmade,
        binding: { node: "n", place: { host: "b" } },
        source: { ...source, accessible: [{ host: "a" }] },
      }),
      at([{ host: "b" }], [{ host: "a" }]),
    ],
    [
      "to be made for a claim, and its node has no topology",
      volumeRecord([], [], { ...unmade, binding: { node: "n", place: {} } }),
      { kind: "nodes", names: ["n"], ids: [] },
    ],
    [
      "a call has left, and nothing says where to",
      volumeRecord([], [], {
        ...unmade,
        intent: { op: "create", epoch: { gen: 1, ctr: 0 }, issuer: "i", opId: "o", uncertainSince: 1 },
      }),
      { kind: "unknown" },
    ],
    [
      "a copy of a volume of which no place is known",
      volumeRecord([], [], { ...unmade, source, contentSource: { kind: "volume", id: "v" } }),
      { kind: "unknown", ask: { kind: "volume", externalId: "src" } },
    ],
    [
      "a copy of a snapshot of which no place is known",
      volumeRecord([], [], { ...unmade, source, contentSource: { kind: "snapshot", id: "s" } }),
      { kind: "unknown", ask: { kind: "snapshot", externalId: "src" } },
    ],
    [
      "to be made anew",
      volumeRecord([], [], {
        ...unmade,
        topology: topology([], [{ host: "a" }], [{ host: "b" }]),
        source: { ...source, accessible: [{ host: "c" }] },
      }),
      { kind: "choose", lists: [[{ host: "a" }], [{ host: "c" }]], preferred: [{ host: "b" }] },
    ],
    [
      "a snapshot by its source's place",
      { kind: "snapshot", externalId: "s", accessible: [{ host: "a" }] },
      at([{ host: "a" }]),
    ],
    [
      "a snapshot that nothing tells of",
      { kind: "snapshot", externalId: "s", externalVolumeId: "v" },
      { kind: "unknown", ask: { kind: "snapshot", externalId: "s" } },
    ],
    [
      "a snapshot that is yet to be cut",
      { kind: "snapshot", externalId: "", externalVolumeId: "v" },
      { kind: "unknown", ask: { kind: "volume", externalId: "v" } },
    ],
    [
      "a group that nothing tells of",
      { kind: "group", externalId: "g", members: [{ externalVolumeId: "m" }] },
      { kind: "unknown", ask: { kind: "volume", externalId: "m" } },
    ],
  ];
  test.each(rows)("%s", (_name, subject, expected) => expect(whereIs(subject)).toEqual(expected));
});

describe("where a volume is made", () => {
  const homes = (lists: readonly (readonly Segments[])[], preferred: readonly Segments[] = []) =>
    homesFor({ kind: "choose", lists, preferred }, [a, b]).map(({ node }) => node);
  test("within every list, the preferred place first, and nowhere else", () => {
    expect(homes([])).toEqual(["a", "b"]);
    expect(homes([], [{ host: "b" }])).toEqual(["b", "a"]);
    expect(homes([[{ host: "a" }, { host: "b" }]], [{ host: "b" }])).toEqual(["b", "a"]);
    expect(homes([[{ host: "b" }]], [{ host: "a" }])).toEqual(["b"]);
    expect(homes([[{ host: "a" }], [{ host: "b" }]])).toEqual([]);
    expect(homes([[{ host: "c" }]])).toEqual([]);
  });
  test("no home is chosen for what has its place", () => {
    expect(homesFor({ kind: "places", lists: [[{ host: "a" }]] }, [a])).toEqual([]);
  });
});

test("R2: storage is where one instance alone says that it has the storage", () => {
  const said = (...has: readonly ("yes" | "no" | "unknown")[]) => foundAt(has.map((one, of) => ({ of, has: one })));
  expect([said("no", "yes"), said("unknown", "yes"), said("yes", "yes"), said("no", "no"), said()]).toEqual([
    1,
    1,
    undefined,
    undefined,
    undefined,
  ]);
});

test("a place that is waited for is named by its node, as far as it was ever seen", () => {
  const where: Whereabouts = { kind: "places", lists: [[{ host: "b" }]] };
  expect(whereText(where, [a, b])).toBe("node b: host=b");
  expect(whereText(where, [a])).toBe("host=b");
  expect(whereText({ kind: "nodes", names: ["n1"], ids: [] }, [])).toBe("node n1");
});
