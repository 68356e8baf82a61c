import { expect, test } from "vitest";
import type { NodeRecord } from "../domain/node/node.ts";
import { encodeNode, readNode } from "./node-codec.ts";

const life = { machineId: "m", bootId: "b", journalUid: "j" };
const node = (address: string, pendingAddress?: string): NodeRecord => ({
  ...life,
  name: "node-a",
  instance: "i",
  nodeEpoch: 1,
  state: "READY",
  address,
  version: "0.1.0",
  verificationScope: "host",
  plugins: [],
  ...(pendingAddress === undefined ? {} : { pending: { ...life, life: "l", address: pendingAddress, since: 1 } }),
  registeredAt: 1,
  updatedAt: 2,
});
const stored = (body: string) => readNode({ ref: { kind: "node", key: "node-a" }, rev: 1, body });

test("in format 1 every record names an address, so that the release before this one reads it", () => {
  expect(JSON.parse(encodeNode(node("", ""), 1))).toMatchObject({ address: "", pending: { address: "" } });
});

test("in format 2 an address that is empty is left out, and one that is there is kept", () => {
  const text = encodeNode(node("", ""), 2);
  expect(text).not.toContain("address");
  expect(JSON.parse(encodeNode(node("a:1", "a:2"), 2))).toMatchObject({ address: "a:1", pending: { address: "a:2" } });
});

test.each([1, 2])("what was written in format %i is read as it was", (format) => {
  for (const record of [node(""), node("", ""), node("a:1", "")])
    expect(stored(encodeNode(record, format))).toEqual(record);
});

test.each(["null", "[]", '"x"', '{"pending":7}'])("a text that is no node is damaged: %s", (body) => {
  expect(() => stored(body)).toThrow("the record node node-a in the store is damaged");
});
