import { beforeAll, expect, test } from "vitest";
import { loadMessageJson, type MessageJson } from "../frame/message-json.ts";
import { checkSpec } from "./check-spec.ts";
import { readSpecDocument } from "./spec-document.ts";

let messages: MessageJson;
beforeAll(async () => {
  messages = await loadMessageJson();
});
const checked = (type: string, text: string) =>
  checkSpec(readSpecDocument(text), messages.describe(`holdfast.v1.${type}`), []);

test.each([
  ["PluginProfile", "max_concurrent_calls: -1", "has to be 0 to 4294967295, not -1"],
  ["PluginProfile", "max_concurrent_calls: 4294967296", "has to be 0 to 4294967295, not 4294967296"],
  ["PluginProfile", "max_volumes_per_node: 1e30", "has to be a whole number, not 1e+30"],
  [
    "PluginProfile",
    "max_volumes_per_node: 9223372036854775808",
    "has to be -9223372036854775808 to 9223372036854775807",
  ],
  ["CreateVolumeRequest", "capacity: {required_bytes: 16EiB}", "has to be -9223372036854775808 to 9223372036854775807"],
  ["CreateVolumeRequest", 'plugin: "\\ud800"', "has half of a letter"],
  ["CreateVolumeRequest", 'labels: {"\\ud800": x}', "has half of a letter"],
])("%s with %s is refused with its line", (type, text, rule) => {
  const [violation, ...others] = checked(type, text).violations;
  expect(others).toEqual([]);
  expect(violation).toMatchObject({ line: 1, rule: expect.stringContaining(rule) });
});

test("a number is taken as the file has it, also where a number of the language would be another one", () => {
  const { json, violations } = checked(
    "PluginProfile",
    "max_volumes_per_node: 9007199254740993\nmax_concurrent_calls: 0x10",
  );
  expect(violations).toEqual([]);
  expect(json).toEqual({ max_volumes_per_node: "9007199254740993", max_concurrent_calls: "16" });
  expect(checked("CreateVolumeRequest", "capacity: {required_bytes: 9007199254740993}").json).toEqual({
    capacity: { required_bytes: "9007199254740993" },
  });
});
