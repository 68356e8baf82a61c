import { expect, it } from "vitest";
import { doubleWriters } from "./double-writers.ts";

const publish = (seq: number, node: string, done = true) =>
  ({ seq, endSeq: seq + 1, method: "NodePublishVolume", volume: "v", node, done }) as const;
const unpublish = (seq: number, endSeq: number, node: string, done = true) =>
  ({ seq, endSeq, method: "NodeUnpublishVolume", volume: "v", node, done }) as const;

it("finds a publication that arrives while another node has the volume, or still gives it up", () => {
  expect(doubleWriters([publish(1, "node-a"), publish(3, "node-b")])).toEqual(["call 3: v at node-b beside node-a"]);
  expect(doubleWriters([publish(1, "node-a"), unpublish(3, 9, "node-a"), publish(5, "node-b")])).toHaveLength(1);
  expect(doubleWriters([publish(1, "node-a"), unpublish(3, 4, "node-a", false), publish(5, "node-b")])).toHaveLength(1);
});

it("leaves out one after the other, the same node, and what was not done", () => {
  expect(doubleWriters([publish(1, "node-a"), unpublish(3, 4, "node-a"), publish(5, "node-b")])).toEqual([]);
  expect(doubleWriters([publish(1, "node-a"), publish(3, "node-a")])).toEqual([]);
  expect(doubleWriters([publish(1, "node-a"), publish(3, "node-b", false)])).toEqual([]);
});
