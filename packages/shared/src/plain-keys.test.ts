import { readFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { CreateVolumeRequest } from "./gen/holdfast/v1/volume.ts";
import { plainKeys } from "./plain-keys.ts";

const labels = JSON.parse('{"__proto__":"x","b":"y"}') as Record<string, string>;
const sent = (): Uint8Array => CreateVolumeRequest.encode(CreateVolumeRequest.fromPartial({ labels })).finish();

test("a map of a message keeps a key that is an accessor of every object otherwise", () => {
  const restore = plainKeys();
  try {
    expect(Object.entries(CreateVolumeRequest.decode(sent()).labels)).toEqual(Object.entries(labels));
  } finally {
    restore();
  }
  expect(Object.getPrototypeOf({})).toBe(Object.prototype);
  expect("__proto__" in {}).toBe(true);
});

test.each([
  "services/controller/src/serve-main.ts",
  "services/node-agent/src/serve-main.ts",
  "packages/local-driver/src/serve-main.ts",
  "packages/cli/src/main.ts",
])("%s begins with it", async (file) => {
  const main = await readFile(path.resolve(import.meta.dirname, "../../..", file), "utf8");
  expect(main).toMatch(/^plainKeys\(\);$/m);
});
