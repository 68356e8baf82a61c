import { describe, expect, test } from "vitest";
import { HoldfastError } from "../errors/holdfast-error.ts";
import { isSecretName, struckOut } from "./log-field.ts";
import { createLogger, createMemoryLogger } from "./logger.ts";

function lines(level: "debug" | "info" | "warn" | "error") {
  const written: string[] = [];
  const log = createLogger({
    level,
    fields: { service: "test" },
    destination: { write: (line) => written.push(line) },
  });
  return { log, parsed: () => written.map((line): Record<string, unknown> => JSON.parse(line)) };
}

describe("createLogger", () => {
  test("one JSON object a line, with level, time, message and the bound fields", () => {
    const { log, parsed } = lines("info");
    log.debug("not shown");
    log.child({ volume: "v" }).warn("stuck", { tries: 3 });
    const [line, ...more] = parsed();
    expect(more).toEqual([]);
    expect(line).toMatchObject({ level: "warn", message: "stuck", service: "test", volume: "v", tries: 3 });
    expect(new Date(String(line?.["time"])).toISOString()).toBe(line?.["time"]);
  });

  test("fields cannot forge the parts of the line", () => {
    const { log, parsed } = lines("info");
    log.info('quote " and\nnewline', { note: '","level":"error' });
    expect(parsed()[0]).toMatchObject({ level: "info", message: 'quote " and\nnewline', note: '","level":"error' });
  });
});

describe("fields", () => {
  const shown = (fields: Record<string, unknown>) => {
    const log = createMemoryLogger();
    log.info("m", fields);
    return log.lines[0]?.fields;
  };

  test("names that look like secrets are struck out, at any depth", () => {
    expect(
      shown({
        password: "p",
        stageSecrets: { a: "b" },
        nested: { apiToken: "t", ticket: "t", ok: 1 },
        list: [{ publish_context: { x: "y" } }],
      }),
    ).toEqual({
      password: struckOut,
      stageSecrets: struckOut,
      nested: { apiToken: struckOut, ticket: struckOut, ok: 1 },
      list: [{ publish_context: struckOut }],
    });
    for (const name of [
      "secrets",
      "VOLUME_CONTEXT",
      "mountFlags",
      "dbPassword",
      "mutable_parameters",
      "authorization",
    ]) {
      expect([name, isSecretName(name)]).toEqual([name, true]);
    }
    for (const name of ["secret_version", "volume", "monkey", "tokens_left", "context"]) {
      expect([name, isSecretName(name)]).toEqual([name, false]);
    }
  });

  test("errors become what can be searched for; only foreign ones bring their stack", () => {
    const cause = new TypeError("inner");
    const error = new HoldfastError({
      kind: "aborted",
      reason: "BUSY",
      message: "m",
      metadata: { volume: "v" },
      cause,
    });
    expect(shown({ error })?.["error"]).toMatchObject({
      kind: "aborted",
      reason: "BUSY",
      message: "m",
      metadata: { volume: "v" },
      cause: { name: "TypeError", message: "inner", stack: expect.stringContaining("TypeError") },
    });
    expect(shown({ error })?.["error"]).not.toHaveProperty("stack");
  });

  test("odd values do no harm: bigints, bytes, dates, cycles, endless texts, undefined", () => {
    const cycle: Record<string, unknown> = {};
    cycle["self"] = cycle;
    const fields = shown({
      big: 5n,
      bytes: Buffer.from("abc"),
      at: new Date(0),
      cycle,
      long: "x".repeat(100_000),
      map: new Map([["token", "t"]]),
      none: undefined,
    });
    expect(fields).toMatchObject({
      big: "5",
      bytes: "3 bytes",
      at: "1970-01-01T00:00:00.000Z",
      map: { token: struckOut },
    });
    expect(String(fields?.["long"]).length).toBeLessThan(3000);
    expect(JSON.stringify(fields?.["cycle"])).toContain("…");
    expect(fields).not.toHaveProperty("none");
  });
});
