import { loadConfig } from "@holdfast/shared/config/config";
import { createFailpoints, parseFailpoints } from "@holdfast/shared/failpoints";
import { describe, expect, test } from "vitest";
import { configSchema } from "./config.ts";
import { maxRootBytes } from "./domain/paths.ts";
import { failpointNames } from "./failpoints.ts";

test("with a name alone everything else has a default", () => {
  const config = loadConfig(configSchema, { HOLDFAST_NODE: "node-a" });
  expect(config).toMatchObject({
    node: "node-a",
    controllers: ["127.0.0.1:7602"],
    proxy: undefined,
    insecure: false,
    failpoints: [],
  });
});

test("the socket for programs of the host is one, and for a group by name or number", () => {
  const read = (env: Readonly<Record<string, string>>) => loadConfig(configSchema, { HOLDFAST_NODE: "node-a", ...env });
  expect(read({})).toMatchObject({ localListen: undefined, localGroup: undefined });
  const env = { HOLDFAST_LOCAL_LISTEN: "unix:///run/holdfast/agent.sock", HOLDFAST_LOCAL_GROUP: "runners" };
  expect(read(env)).toMatchObject({ localListen: "unix:///run/holdfast/agent.sock", localGroup: "runners" });
  expect(read({ HOLDFAST_LOCAL_GROUP: "998" }).localGroup).toBe("998");
  // Whoever reaches an address would be the workload manager of the host.
  expect(() => read({ HOLDFAST_LOCAL_LISTEN: "127.0.0.1:7612" })).toThrow(/HOLDFAST_LOCAL_LISTEN.*has to be a socket/);
  expect(() => read({ HOLDFAST_LOCAL_GROUP: "a:b" })).toThrow("HOLDFAST_LOCAL_GROUP");
});

test("every mistake is told at once", () => {
  const env = {
    HOLDFAST_PROXY: "socks5://proxy:1080",
    HOLDFAST_ROOT_DIR: `/${"x".repeat(maxRootBytes)}`,
    HOLDFAST_RECONNECT_MAX: "5",
    HOLDFAST_FAILPOINTS: "agent.stage.after-journal=pause,agent.nothing=kill",
    HOLDFAST_CONTROLLERS: "here:1,nowhere",
    HOLDFAST_CONTROLERS: "a:1",
    HOLDFAST_ADMIN_LISTEN: "unix:///run/admin.sock",
  };
  const error = (() => {
    try {
      return loadConfig(configSchema, env);
    } catch (it) {
      return it;
    }
  })() as { violations: { field: string; description: string }[] };
  expect(error.violations.map(({ field }) => field).sort()).toEqual([
    "HOLDFAST_ADMIN_LISTEN",
    "HOLDFAST_CONTROLERS",
    "HOLDFAST_CONTROLLERS",
    "HOLDFAST_FAILPOINTS",
    "HOLDFAST_NODE",
    "HOLDFAST_PROXY",
    "HOLDFAST_RECONNECT_MAX",
    "HOLDFAST_ROOT_DIR",
  ]);
  const said = (field: string) => error.violations.find((it) => it.field === field)?.description;
  expect(said("HOLDFAST_ROOT_DIR")).toMatch(/CSI limits a path to 128/);
  expect(said("HOLDFAST_CONTROLLERS")).toMatch(/nowhere: /);
  expect(said("HOLDFAST_CONTROLERS")).toMatch(/did you mean HOLDFAST_CONTROLLERS/);
});

describe("failpoints", () => {
  test("there are at least twenty, each named once", () => {
    expect(failpointNames.length).toBeGreaterThanOrEqual(20);
    expect(new Set(failpointNames).size).toBe(failpointNames.length);
  });

  test("fire the n-th time, once", () => {
    const { settings, mistakes } = parseFailpoints(
      failpointNames,
      "agent.stage.after-call=kill@2, agent.publish.after-call=kill",
    );
    expect(mistakes).toEqual([]);
    const fired: string[] = [];
    const failpoint = createFailpoints(settings, (name) => fired.push(name));
    for (let at = 0; at < 4; at += 1) failpoint("agent.stage.after-call");
    failpoint("agent.publish.after-call");
    failpoint("agent.unstage.after-call");
    expect(fired).toEqual(["agent.stage.after-call", "agent.publish.after-call"]);
  });
});

test("a proxy is named by host and port, and perhaps by whom it lets through", () => {
  const read = (proxy: string) => loadConfig(configSchema, { HOLDFAST_NODE: "node-a", HOLDFAST_PROXY: proxy }).proxy;
  for (const proxy of ["http://proxy:3128", "http://me:secret@10.0.0.1:3128"]) expect(read(proxy)).toBe(proxy);
  for (const proxy of ["proxy:3128", "https://proxy:3128", "http://proxy/path", "http://"])
    expect(() => read(proxy)).toThrow(/HOLDFAST_PROXY is not valid/);
});
