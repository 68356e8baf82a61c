import { expect, test } from "vitest";
import { coversOne, differingKeys, wantedPlaces, withinSource } from "./source-topology.ts";

const usable = [
  { region: "r1", zone: "a" },
  { region: "r1", zone: "b" },
];

test("a source that can be used everywhere changes nothing", () => {
  const topology = { required: [{ zone: "c" }], preferred: [], accessible: [] };
  expect(wantedPlaces({ topology })).toEqual({ required: [{ zone: "c" }], preferred: [] });
});

test("asked places keep what lies in the source's, whatever the case of keys; without any the source's are taken", () => {
  expect(withinSource({ required: [{ Zone: "b" }, { zone: "c" }], preferred: [{ Zone: "b" }] }, usable)).toEqual({
    required: [{ Zone: "b", region: "r1" }],
    preferred: [{ Zone: "b", region: "r1" }],
  });
  expect(withinSource({ required: [{ region: "r1" }], preferred: [] }, usable).required).toEqual(usable);
  expect(withinSource({ required: [], preferred: [{ zone: "b" }] }, usable)).toEqual({
    required: usable,
    preferred: [{ zone: "b", region: "r1" }],
  });
});

test("where nothing is shared, the keys are named", () => {
  expect(coversOne([{ zone: "a" }, { zone: "c" }], usable)).toBe(true);
  expect(coversOne([{ region: "r1", zone: "c" }], usable)).toBe(false);
  expect(differingKeys([{ region: "r1", zone: "c" }], usable)).toEqual(["zone is to be c and is a or b"]);
  expect(coversOne([], usable)).toBe(true);
});
