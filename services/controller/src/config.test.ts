import { loadConfig } from "@holdfast/shared/config/config";
import { ConfigError } from "@holdfast/shared/config/config-error";
import { createFailpoints, parseFailpoints } from "@holdfast/shared/failpoints";
import { describe, expect, test } from "vitest";
import { configSchema } from "./config.ts";
import { failpointNames } from "./failpoints.ts";

describe("settings", () => {
  test("have a default for everything that a first start needs", () => {
    const config = loadConfig(configSchema, {});
    expect(config).toMatchObject({
      listen: "127.0.0.1:7600",
      adminListen: "127.0.0.1:7601",
      cell: "default",
      agentListen: "127.0.0.1:7602",
      linkGrace: 3_000,
      insecure: false,
      allowVolatileStore: false,
      failpoints: [],
    });
    expect(config.store).toBeUndefined();
    expect(config.otlpEndpoint).toBeUndefined();
  });

  test("that are wrong come back all at once, and a password never does", () => {
    const wrong = {
      HOLDFAST_LISTEN: "nowhere",
      HOLDFAST_STORE: "mysql://user:canary-pw@host",
      HOLDFAST_CELL: "Ünited",
      HOLDFAST_STATE_DIR: "relative",
      HOLDFAST_AGENT_LISTEN: "here",
      HOLDFAST_LINK_GRACE: "5",
      HOLDFAST_CONDITION_INTERVAL: "1ms",
      HOLDFAST_OTLP_PROTOCOL: "udp",
      HOLDFAST_FAILPOINTS: "controller.attach.after-commit=kill,controller.nowhere=kill,controller.attach.after-call",
      HOLDFAST_ID: "Not An Id",
      HOLDFAST_STOR: "sqlite:///x",
    };
    let error: unknown;
    try {
      loadConfig(configSchema, wrong);
    } catch (thrown) {
      error = thrown;
    }
    if (!(error instanceof ConfigError)) throw new Error("no ConfigError");
    expect(error.violations.map(({ field }) => field).sort()).toEqual(Object.keys(wrong).sort());
    expect(error.message).toContain("did you mean HOLDFAST_STORE?");
    expect(error.message).toContain("controller.nowhere=kill");
    expect(error.message).not.toContain("canary-pw");
  });

  test("grant secrets to the namespaces that they name, and to default where they name none", () => {
    const { secretFiles, secretEnv, secretVault } = loadConfig(configSchema, {
      HOLDFAST_SECRET_FILES: "run=/run/secrets/, all=/srv/all@*",
      HOLDFAST_SECRET_ENV: "ARRAY_@team-a+team-b",
      HOLDFAST_SECRET_VAULT: "kv/storage",
    });
    expect(secretFiles).toEqual([
      { name: "run", dir: "/run/secrets", namespaces: ["default"] },
      { name: "all", dir: "/srv/all", namespaces: [] },
    ]);
    expect(secretEnv).toEqual([{ prefix: "ARRAY_", namespaces: ["team-a", "team-b"] }]);
    expect(secretVault).toEqual([{ path: "kv/storage", namespaces: ["default"] }]);
  });

  test.each([
    ["HOLDFAST_SECRET_FILES", "run"],
    ["HOLDFAST_SECRET_FILES", "run=relative"],
    ["HOLDFAST_SECRET_FILES", "run=/"],
    ["HOLDFAST_SECRET_FILES", "run=/a/../etc"],
    ["HOLDFAST_SECRET_FILES", "run=/a@"],
    ["HOLDFAST_SECRET_FILES", "run=/a@Team"],
    ["HOLDFAST_SECRET_FILES", "run=/a@*+b"],
    ["HOLDFAST_SECRET_ENV", "HOLDFAST_"],
    ["HOLDFAST_SECRET_ENV", "HOLDFAST_STORE_"],
    ["HOLDFAST_SECRET_ENV", "P"],
    ["HOLDFAST_SECRET_ENV", "_"],
    ["HOLDFAST_SECRET_ENV", "NODE_OPTIONS_"],
    ["HOLDFAST_SECRET_VAULT", "kv/../sys"],
    ["HOLDFAST_SECRET_VAULT", "/kv"],
  ])("%s=%s grants too much, or nothing that there is", (name, value) => {
    expect(() => loadConfig(configSchema, { [name]: value })).toThrow(`${name} = `);
  });

  test("name the namespaces of agents, or every one, or none", () => {
    const said = (text: string) => loadConfig(configSchema, { HOLDFAST_NODE_NAMESPACES: text }).nodeNamespaces;
    expect(said("shop, web")).toEqual(["shop", "web"]);
    expect(said("*")).toEqual(["*"]);
    expect(loadConfig(configSchema, {}).nodeNamespaces).toBeUndefined();
    for (const text of ["*,shop", "Shop", "sh*"]) expect(() => said(text)).toThrow("HOLDFAST_NODE_NAMESPACES = ");
  });

  test.each([
    "redis://127.0.0.1:6379",
    "rediss://user:pw@host:6380",
    "redis+sentinel://h:1,i:2/main",
    "rediss+cluster://user:pw@h:1,i:2",
    "sqlite:///var/lib/x.db",
  ])("%s is a store", (store) => {
    expect(loadConfig(configSchema, { HOLDFAST_STORE: store }).store).toBe(store);
  });
});

describe("failpoints", () => {
  test("kill at the time that was asked for, and once", () => {
    const killed: string[] = [];
    const { settings, mistakes } = parseFailpoints(
      failpointNames,
      "controller.attach.after-commit=kill, controller.offer.after-call=kill@2",
    );
    expect(mistakes).toEqual([]);
    const failpoint = createFailpoints(settings, (name) => void killed.push(name));
    for (const name of failpointNames) failpoint(name);
    expect(killed).toEqual(["controller.attach.after-commit"]);
    for (const name of failpointNames) failpoint(name);
    for (const name of failpointNames) failpoint(name);
    expect(killed).toEqual(["controller.attach.after-commit", "controller.offer.after-call"]);
  });

  test.each([
    "x",
    "controller.attach.after-commit",
    "controller.attach.after-commit=stop",
    "controller.create.after-call=kill@0",
  ])("%s is none", (text) => {
    expect(parseFailpoints(failpointNames, text)).toMatchObject({
      settings: [],
      mistakes: [expect.stringContaining(text)],
    });
  });
});
