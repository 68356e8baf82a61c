import { readFile } from "node:fs/promises";
import path from "node:path";
import { loadConfig } from "@holdfast/shared/config/config";
import { ConfigError } from "@holdfast/shared/config/config-error";
import { describeConfig } from "@holdfast/shared/config/describe-config";
import { describe, expect, test } from "vitest";
import { configSchema, toDriverSettings } from "./config.ts";
import { offeredMountOptions } from "./domain/mount-options.ts";

const least = {
  HOLDFAST_LOCAL_SOCKET: "/run/a.sock",
  HOLDFAST_LOCAL_NODE_ID: "node-a",
};
const load = (env: Readonly<Record<string, string>> = {}) => loadConfig(configSchema, { ...least, ...env });
const withLoops = { noLoops: undefined };
const withoutLoops = { noLoops: "there is no /dev/loop-control" };

const faultsOf = (act: () => unknown): readonly string[] => {
  try {
    act();
  } catch (error) {
    if (error instanceof ConfigError)
      return error.violations.map(({ field, description }) => `${field} ${description}`);
    throw error;
  }
  throw new Error("nothing was wrong with it");
};

describe("settings", () => {
  test("need a socket and a node, and have a default for all else", () => {
    expect(faultsOf(() => loadConfig(configSchema, {}))).toEqual([
      expect.stringMatching(/^HOLDFAST_LOCAL_SOCKET is not set/),
      expect.stringMatching(/^HOLDFAST_LOCAL_NODE_ID is not set/),
    ]);
    expect(toDriverSettings(load(), withLoops)).toEqual({
      name: "local.holdfast.dev",
      version: "0.1.0",
      nodeId: "node-a",
      topologyKey: "local.holdfast.dev/node",
      defaultType: "image",
      types: ["directory", "image"],
      defaultFsType: "ext4",
      defaultBytes: 1n << 30n,
      attach: false,
      maxVolumesPerNode: 0,
    });
  });

  test("are wrong all at once", () => {
    const env = {
      HOLDFAST_LOCAL_SOCKET: `a.sock,/${"x".repeat(107)}`,
      HOLDFAST_LOCAL_NODE_ID: "-a",
      HOLDFAST_LOCAL_NAME: "Local",
      HOLDFAST_LOCAL_TYPES: "image,tape",
      HOLDFAST_LOCAL_DEFAULT_FS: "btrfs",
      HOLDFAST_LOCAL_DEFAULT_SIZE: "1G",
      HOLDFAST_LOCAL_SOCKET_MODE: "rw",
      HOLDFAST_LOCAL_MAX_VOLUMES: "-1",
      HOLDFAST_LOCAL_ATACH: "1",
    };
    expect(faultsOf(() => load(env)).map((fault) => fault.split(" ")[0])).toEqual([
      "HOLDFAST_LOCAL_ATACH",
      "HOLDFAST_LOCAL_SOCKET",
      "HOLDFAST_LOCAL_SOCKET_MODE",
      "HOLDFAST_LOCAL_NODE_ID",
      "HOLDFAST_LOCAL_NAME",
      "HOLDFAST_LOCAL_TYPES",
      "HOLDFAST_LOCAL_DEFAULT_FS",
      "HOLDFAST_LOCAL_DEFAULT_SIZE",
      "HOLDFAST_LOCAL_MAX_VOLUMES",
    ]);
    expect(faultsOf(() => load(env)).join("\n")).toMatch(
      /a\.sock: has to be an absolute path; .*has 108 bytes, 107 are/,
    );
  });

  test("a socket that is named twice is a mistake", () => {
    expect(faultsOf(() => load({ HOLDFAST_LOCAL_SOCKET: "/a.sock,/a.sock" }))).toEqual([
      expect.stringContaining("names the same thing twice"),
    ]);
  });

  test.each([
    ["16777216", 16n << 20n],
    ["512Mi", 512n << 20n],
    ["2Ti", 2n << 40n],
  ])("a size of %s", (text, bytes) => {
    expect(toDriverSettings(load({ HOLDFAST_LOCAL_DEFAULT_SIZE: text }), withLoops).defaultBytes).toBe(bytes);
  });

  test.each(["0", "-1", "1.5Gi", "15Mi", "1GiB", ""])("no size: %j", (text) => {
    if (text === "") expect(load({ HOLDFAST_LOCAL_DEFAULT_SIZE: text }).defaultSize).toBe("1Gi");
    else expect(faultsOf(() => load({ HOLDFAST_LOCAL_DEFAULT_SIZE: text }))).toHaveLength(1);
  });
});

describe("on a machine", () => {
  test("without loop devices there are directories, unless images were asked for", () => {
    const settings = toDriverSettings(load(), withoutLoops);
    expect([settings.types, settings.defaultType]).toEqual([["directory"], "directory"]);
    expect(faultsOf(() => toDriverSettings(load({ HOLDFAST_LOCAL_TYPES: "image" }), withoutLoops))).toEqual([
      "HOLDFAST_LOCAL_TYPES names image, and there is no /dev/loop-control",
    ]);
  });

  test("what contradicts itself is told together", () => {
    const env = {
      HOLDFAST_LOCAL_TYPES: "image",
      HOLDFAST_LOCAL_DEFAULT_TYPE: "directory",
      HOLDFAST_LOCAL_DEFAULT_FS: "xfs",
      HOLDFAST_LOCAL_DEFAULT_SIZE: "64Mi",
    };
    expect(faultsOf(() => toDriverSettings(load(env), withoutLoops)).map((fault) => fault.split(" ")[0])).toEqual([
      "HOLDFAST_LOCAL_TYPES",
      "HOLDFAST_LOCAL_DEFAULT_TYPE",
      "HOLDFAST_LOCAL_DEFAULT_SIZE",
    ]);
  });
});

describe("docs/local-driver.md", () => {
  const read = () => readFile(path.resolve(import.meta.dirname, "../../../docs/local-driver.md"), "utf8");

  test("has the settings as they are", async () => {
    expect(await read()).toContain(describeConfig(configSchema));
  });

  test("has the mount options as they are", async () => {
    const list = offeredMountOptions.map((option) => `\`${option}\``).join(", ");
    expect((await read()).replaceAll(/\s+/g, " ")).toContain(list);
  });
});
