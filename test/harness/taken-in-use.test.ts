import { expect, it } from "vitest";
import { takenInUse } from "./taken-in-use.ts";

const at = (ms: number): string => new Date(ms).toISOString();
const call = { seq: 1, at: at(150), method: "NodeUnpublishVolume", volume: "v", node: "node-a" } as const;
const use = { externalId: "v", node: "node-a", from: 100, until: 200 };

it("finds a call that ends what is in use on that node", () => {
  const found = ["call 1: NodeUnpublishVolume of v at node-a"];
  expect(takenInUse([call], [use])).toEqual(found);
  expect(takenInUse([call], [{ ...use, until: Number.POSITIVE_INFINITY }])).toEqual(found);
  expect(takenInUse([{ ...call, method: "ControllerUnpublishVolume" }], [use])).toHaveLength(1);
  expect(takenInUse([{ ...call, method: "NodeUnstageVolume" }], [use])).toHaveLength(1);
});

it("leaves out what is not in use there then, and calls that end nothing", () => {
  for (const ms of [99, 201]) expect(takenInUse([{ ...call, at: at(ms) }], [use])).toEqual([]);
  for (const other of [{ volume: "w" }, { node: "node-b" }, { method: "NodePublishVolume" } as const])
    expect(takenInUse([{ ...call, ...other }], [use])).toEqual([]);
});
