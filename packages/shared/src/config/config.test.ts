import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isHoldfastError } from "../errors/holdfast-error.ts";
import { cliEnvironment } from "./cli-environment.ts";
import { defineConfig, loadConfig } from "./config.ts";
import { ConfigError } from "./config-error.ts";
import { describeConfig } from "./describe-config.ts";
import { editDistance, nearest } from "./nearest.ts";
import {
  addressSetting,
  boolSetting,
  durationSetting,
  enumSetting,
  formatDuration,
  intSetting,
  listSetting,
  optional,
  parseDuration,
  pathSetting,
  stringSetting,
} from "./setting.ts";

const schema = defineConfig({
  listen: addressSetting({ env: "HOLDFAST_LISTEN", default: "127.0.0.1:7070", doc: "Where the API listens." }),
  maxVolumes: intSetting({ env: "HOLDFAST_MAX_VOLUMES", min: 1, max: 100, default: 10, doc: "How many." }),
  timeout: durationSetting({ env: "HOLDFAST_PATIENCE", min: 100, default: 30_000, doc: "How long." }),
  store: enumSetting({ env: "HOLDFAST_STORE", values: ["redis", "sqlite"], default: "sqlite", doc: "Which | store." }),
  tracing: boolSetting({ env: "HOLDFAST_TRACING", default: false, doc: "Spans." }),
  seeds: listSetting({ env: "HOLDFAST_SEEDS", default: [], doc: "Controllers." }),
  state: pathSetting({ env: "HOLDFAST_STATE_DIR", doc: "Journal." }),
  password: optional(stringSetting({ env: "HOLDFAST_PASSWORD", secret: true, doc: "Of Redis." })),
});

const enough = { HOLDFAST_STATE_DIR: "/var/lib/holdfast" };

function mistakes(env: Record<string, string>, readFile?: (path: string) => string): readonly string[] {
  try {
    loadConfig(schema, env, readFile === undefined ? {} : { readFile });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    for (const { field, description } of error.violations) expect(error.message).toContain(`${field} ${description}`);
    return error.violations.map(({ field, description }) => `${field} ${description}`);
  }
  return [];
}

describe("loadConfig", () => {
  test("defaults, typed and frozen", () => {
    const config = loadConfig(schema, enough);
    expect(config).toEqual({
      listen: "127.0.0.1:7070",
      maxVolumes: 10,
      timeout: 30_000,
      store: "sqlite",
      tracing: false,
      seeds: [],
      state: "/var/lib/holdfast",
      password: undefined,
    });
    expect(Object.isFrozen(config)).toBe(true);
    const store: "redis" | "sqlite" = config.store;
    expect(store).toBe("sqlite");
  });

  test("every type reads its text", () => {
    const config = loadConfig(schema, {
      HOLDFAST_LISTEN: "unix:/run/holdfast.sock",
      HOLDFAST_MAX_VOLUMES: "100",
      HOLDFAST_PATIENCE: "1m30s",
      HOLDFAST_STORE: "redis",
      HOLDFAST_TRACING: "On",
      HOLDFAST_SEEDS: "a:1, b:2,",
      HOLDFAST_STATE_DIR: "/srv/",
      HOLDFAST_PASSWORD: "p",
      PATH: "/bin",
    });
    expect(config).toEqual({
      listen: "unix:///run/holdfast.sock",
      maxVolumes: 100,
      timeout: 90_000,
      store: "redis",
      tracing: true,
      seeds: ["a:1", "b:2"],
      state: "/srv",
      password: "p",
    });
  });

  test("all mistakes come at once, each with its name and what would be right", () => {
    const found = mistakes({
      HOLDFAST_LISTEN: "nowhere",
      HOLDFAST_MAX_VOLUMES: "1000",
      HOLDFAST_PATIENCE: "30",
      HOLDFAST_STORE: "postgres",
      HOLDFAST_TRACING: "maybe",
      HOLDFAST_MAX_VOLUME: "3",
      HOLDFAST_QQQQQQQQQQ: "x",
    });
    expect(found).toHaveLength(8);
    expect(found).toContain("HOLDFAST_MAX_VOLUME is not a setting; did you mean HOLDFAST_MAX_VOLUMES?");
    expect(found).toContain("HOLDFAST_QQQQQQQQQQ is not a setting");
    expect(found).toContain('HOLDFAST_LISTEN = "nowhere" has to be unix:///absolute/path or host:port');
    expect(found).toContain('HOLDFAST_MAX_VOLUMES = "1000" may be at most 100');
    expect(found).toContain('HOLDFAST_STORE = "postgres" has to be one of redis, sqlite');
    expect(found.some((text) => text.startsWith("HOLDFAST_STATE_DIR is not set"))).toBe(true);
    expect(found.some((text) => text.startsWith('HOLDFAST_PATIENCE = "30" has to be a duration with a unit'))).toBe(
      true,
    );
  });

  test("what is exported for the command line is no mistake; in a service's file, or misspelt, it is one", () => {
    const exported = Object.fromEntries(Object.values(cliEnvironment).map((name) => [name, "whatever"]));
    expect(mistakes({ ...enough, ...exported })).toEqual([]);
    expect(mistakes({ ...enough, HOLDFAST_ADDRES: "x" })).toEqual(["HOLDFAST_ADDRES is not a setting"]);
    const file = JSON.stringify({ HOLDFAST_ADDRESS: "127.0.0.1:7600" });
    expect(mistakes({ ...enough, HOLDFAST_CONFIG_FILE: "/c" }, () => file)).toEqual([
      "HOLDFAST_ADDRESS is not a setting",
    ]);
  });

  test("an empty variable counts as not given", () => {
    expect(loadConfig(schema, { ...enough, HOLDFAST_MAX_VOLUMES: "" }).maxVolumes).toBe(10);
  });

  test("a value can come from a file, but not from two places", () => {
    const readFile = (path: string) => {
      if (path === "/secret") return "from-file\n";
      throw new Error("ENOENT");
    };
    expect(loadConfig(schema, { ...enough, HOLDFAST_PASSWORD_FILE: "/secret" }, { readFile }).password).toBe(
      "from-file",
    );
    const both = { ...enough, HOLDFAST_PASSWORD: "x", HOLDFAST_PASSWORD_FILE: "/secret" };
    expect(mistakes(both, readFile)).toEqual([
      "HOLDFAST_PASSWORD and HOLDFAST_PASSWORD_FILE are both set; set one of them",
    ]);
    expect(mistakes({ ...enough, HOLDFAST_PASSWORD_FILE: "/gone" }, readFile)).toEqual([
      "HOLDFAST_PASSWORD_FILE /gone cannot be read: ENOENT",
    ]);
  });

  test("a config file holds what the environment does not say", () => {
    const file = {
      HOLDFAST_STATE_DIR: "/from/file",
      HOLDFAST_MAX_VOLUMES: 7,
      HOLDFAST_SEEDS: ["a", "b"],
      HOLDFAST_TRACING: true,
    };
    const env = { HOLDFAST_CONFIG_FILE: "/etc/holdfast.json", HOLDFAST_MAX_VOLUMES: "8" };
    const config = loadConfig(schema, env, { readFile: () => JSON.stringify(file) });
    expect(config).toMatchObject({ state: "/from/file", maxVolumes: 8, seeds: ["a", "b"], tracing: true });
    const bad = { HOLDFAST_CONFIG_FILE: "/c", ...enough };
    expect(mistakes(bad, () => "{")[0]).toMatch(/^HOLDFAST_CONFIG_FILE \/c cannot be read as JSON/);
    expect(mistakes(bad, () => '{"HOLDFAST_STROE":"redis"}')).toEqual([
      "HOLDFAST_STROE is not a setting; did you mean HOLDFAST_STORE?",
    ]);
    expect(mistakes(bad, () => '{"HOLDFAST_STORE":{}}')[0]).toMatch(/^HOLDFAST_STORE in \/c has to be/);
  });

  test("a secret's value never shows in a mistake", () => {
    const secret = defineConfig({
      key: stringSetting({ env: "HOLDFAST_KEY", secret: true, pattern: /^[0-9a-f]{64}$/, doc: "Key." }),
    });
    expect(() => loadConfig(secret, { HOLDFAST_KEY: "hunter2" })).toThrow(/HOLDFAST_KEY is not valid/);
    expect(() => loadConfig(secret, { HOLDFAST_KEY: "hunter2" })).not.toThrow(/hunter2/);
  });

  test("whatever the environment holds, the answer is a config or a ConfigError that names real variables", () => {
    const names = fc.constantFrom(...Object.values(schema).map(({ env }) => env), "HOLDFAST_OTHER");
    fc.assert(
      fc.property(fc.dictionary(names, fc.oneof(fc.string(), fc.constantFrom("1", "5s", "/a", "redis"))), (env) => {
        try {
          const config = loadConfig(schema, env);
          expect(config.maxVolumes).toBeGreaterThanOrEqual(1);
          expect(config.maxVolumes).toBeLessThanOrEqual(100);
        } catch (error) {
          expect(isHoldfastError(error) && error.kind === "invalid" && error.violations.length > 0).toBe(true);
        }
      }),
    );
  });
});

test("durations: what is printed is read back as the same", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 10 ** 11 }), (ms) => {
      expect(parseDuration(formatDuration(ms))).toBe(ms);
    }),
  );
  expect(["1h30m", "0.5s", "2d", "100ms"].map(parseDuration)).toEqual([5_400_000, 500, 172_800_000, 100]);
  expect(["", "5", "s", "5 s", "-1s", "1e3s", "1h 30m"].map(parseDuration)).toEqual(Array(7).fill(undefined));
});

test("edit distance is a metric, and a far word has no nearest", () => {
  const word = fc.stringMatching(/^[A-C]{0,6}$/);
  fc.assert(
    fc.property(word, word, word, (a, b, c) => {
      expect(editDistance(a, b)).toBe(editDistance(b, a));
      expect(editDistance(a, b) === 0).toBe(a === b);
      expect(editDistance(a, c)).toBeLessThanOrEqual(editDistance(a, b) + editDistance(b, c));
    }),
  );
  expect(nearest("HOLDFAST_ZZZZZZZZ", ["HOLDFAST_LISTEN"])).toBeUndefined();
});

test("the settings describe themselves", () => {
  const table = describeConfig(schema);
  expect(table).toContain("| `HOLDFAST_MAX_VOLUMES` | integer, 1 to 100 | `10` | How many. |");
  expect(table).toContain("| `HOLDFAST_PATIENCE` | duration, at least 100ms | `30s` | How long. |");
  expect(table).toContain("| `HOLDFAST_STATE_DIR` | absolute path | **required** | Journal. |");
  expect(table).toContain("Which \\| store.");
});

test("a schema with a foreign or doubled name does not load", () => {
  const one = boolSetting({ env: "HOLDFAST_A", default: true, doc: "" });
  expect(() => defineConfig({ a: one, b: one })).toThrow("HOLDFAST_A");
  const ofTheCli = boolSetting({ env: "HOLDFAST_ADDRESS", default: true, doc: "" });
  expect(() => defineConfig({ a: ofTheCli })).toThrow("HOLDFAST_ADDRESS: is the command line's");
  expect(() => defineConfig({ a: boolSetting({ env: "OTHER", default: true, doc: "" }) })).toThrow("OTHER");
});
