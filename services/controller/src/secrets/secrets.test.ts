import { execFileSync } from "node:child_process";
import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createSecrets, type SecretsOptions } from "./secrets.ts";

const value = "s3cr3t-canary-value";
const mkfifo = "mkfifo";
let dir: string;
let root: string;
beforeAll(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-secrets-"));
  root = path.join(dir, "root");
  await mkdir(root);
});
afterAll(() => rm(dir, { recursive: true, force: true }));

const file = async (name: string, text: string, mode = 0o600): Promise<string> => {
  const made = path.join(root, name);
  await writeFile(made, text);
  await chmod(made, mode);
  return `file:run/${name}`;
};

const failure = async (run: Promise<unknown>): Promise<HoldfastError> => {
  const error: unknown = await run.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof HoldfastError)) throw new Error(`no HoldfastError but ${String(error)}`);
  return error;
};

const log = createMemoryLogger();
const ns = "default";
const env = {
  MY_GOOD: `{"key":"${value}"}`,
  MY_BAD: `{"key":"${value}"`,
  MY_EMPTY: "",
  HOLDFAST_STORE: `{"key":"${value}"}`,
};
const secretsNow = (more: Partial<SecretsOptions> = {}) =>
  createSecrets({
    ...more,
    scope: {
      files: [
        { name: "run", dir: root, namespaces: ["default"] },
        { name: "all", dir: root, namespaces: [] },
      ],
      env: [{ prefix: "MY_", namespaces: ["default"] }],
      vault: [],
    },
    env,
    log,
  });

describe("a reading", () => {
  const use = { volume: "data", method: "CreateVolume" };
  const stored = { read: async () => ({ values: { key: value }, version: 3, createdAt: 7, kept }) };
  let kept = false;

  test("is told before the call has the value, with its version, and not again while it is kept", async () => {
    const told: unknown[] = [];
    const onRead = async (reading: unknown) => void told.push(reading);
    const secrets = secretsNow({ onRead, stored });
    await secrets.read("", ns, use);
    const { version } = await secrets.read("env:MY_GOOD", ns, use);
    kept = false;
    await secrets.resolve("secret:default/array", ns, use);
    kept = true;
    await secrets.resolve("secret:default/array", ns, use);
    expect(told).toEqual([
      { reference: "env:MY_GOOD", version, namespace: ns, ...use },
      { reference: "secret:default/array", version: "secret:default/array@3", namespace: ns, ...use },
    ]);
    expect(JSON.stringify(told)).not.toContain(value);
  });

  test("that cannot be told is given to nobody", async () => {
    const onRead = () =>
      Promise.reject(new HoldfastError({ kind: "unavailable", reason: "AUDIT_UNAVAILABLE", message: "" }));
    const secrets = secretsNow({ onRead });
    expect((await failure(secrets.read("env:MY_GOOD", ns, use))).reason).toBe("AUDIT_UNAVAILABLE");
    expect((await failure(secrets.resolve("env:MY_GOOD", ns, use))).reason).toBe("AUDIT_UNAVAILABLE");
  });
});

describe("references", () => {
  const resolve = (ref: string | undefined, namespace = ns) =>
    secretsNow().resolve(ref, namespace, { volume: "data", method: "CreateVolume" });

  test("nothing is behind no reference", async () => {
    expect(await resolve(undefined)).toEqual({});
    expect(await resolve("")).toEqual({});
  });

  test("a file holds one object of texts", async () => {
    expect(await resolve(await file("a.json", `{"user":"u","key":"${value}"}`))).toEqual({ user: "u", key: value });
    expect(await resolve("file:all/a.json", "other")).toEqual({ user: "u", key: value });
  });

  test("a file is read anew for every call", async () => {
    const ref = await file("changing.json", '{"key":"one"}');
    expect(await resolve(ref)).toEqual({ key: "one" });
    await file("changing.json", '{"key":"two"}');
    expect(await resolve(ref)).toEqual({ key: "two" });
  });

  test("a directory holds one file a key, links below the root included, machinery left out", async () => {
    const mount = path.join(root, "mount");
    await mkdir(path.join(mount, "..2026"), { recursive: true });
    await file("mount/..2026/key", value);
    await symlink("..2026", path.join(mount, "..data"));
    await symlink("..data/key", path.join(mount, "key"));
    expect(await resolve("file:run/mount")).toEqual({ key: value });
  });

  test("a variable holds the same JSON", async () => {
    expect(await resolve("env:MY_GOOD")).toEqual({ key: value });
  });

  test("a record of an earlier version is read where its path lies below a root of its namespace, by the same rules", async () => {
    await file("old.json", `{"key":"${value}"}`);
    expect(await resolve(`file:${root}/old.json`)).toEqual({ key: value });
    for (const ref of [`file:${dir}/outside.json`, `file:${root}/../outside.json`, `file:${root}`])
      expect((await failure(resolve(ref))).reason).toBe("SECRET_NOT_FOUND");
  });

  test.each([
    ["no file", () => Promise.resolve("file:run/gone.json"), /ENOENT/],
    ["no root", () => Promise.resolve("file:walk/a.json"), /none that the settings grant/],
    ["no JSON", () => file("broken.json", `{"key": "${value}"`), /no JSON/],
    ["a list", () => file("list.json", `["${value}"]`), /one JSON object/],
    ["a number", () => file("number.json", `{"${value.slice(0, 3)}": 12345678}`), /no text/],
    ["too much", () => file("big.json", JSON.stringify({ key: value.repeat(400) })), /at most 4096/],
    ["a huge file", () => file("huge.json", `"${value.repeat(4000)}"`), /larger than/],
    ["a long key", () => file("key.json", JSON.stringify({ [`k${"x".repeat(200)}`]: "v" })), /128/],
    ["for everybody", () => file("open.json", `{"key":"${value}"}`, 0o644), /chmod o-rwx .*open\.json/],
    ["no variable", () => Promise.resolve("env:MY_GONE"), /not set/],
    ["an empty variable", () => Promise.resolve("env:MY_EMPTY"), /not set/],
    ["a broken variable", () => Promise.resolve("env:MY_BAD"), /no JSON/],
    ["a variable of the controller's own", () => Promise.resolve("env:HOLDFAST_STORE"), /none that the settings grant/],
    ["a path of Vault that is not granted", () => Promise.resolve("vault:kv/a"), /none that the settings grant/],
    ["another kind", () => Promise.resolve("secrets:x"), /none that the settings grant/],
    [
      "a pipe",
      async () => {
        execFileSync(mkfifo, ["-m", "600", path.join(root, "pipe")]);
        return "file:run/pipe";
      },
      /no regular file/,
    ],
    [
      "a link out",
      async () => {
        await writeFile(path.join(dir, "outside.json"), `{"key":"${value}"}`, { mode: 0o600 });
        await symlink("../outside.json", path.join(root, "out.json"));
        return "file:run/out.json";
      },
      /leads out/,
    ],
    [
      "a directory that is a link out",
      async () => {
        await mkdir(path.join(dir, "elsewhere"));
        await writeFile(path.join(dir, "elsewhere", "key"), value, { mode: 0o600 });
        await symlink("../elsewhere", path.join(root, "there"));
        return "file:run/there";
      },
      /leads out/,
    ],
  ])("%s: the answer is one text for all; why is in the log, the value nowhere", async (_what, make, says) => {
    const ref = await make();
    const error = await failure(resolve(ref));
    const { message, reason, kind, metadata } = await failure(resolve("file:run/never-there"));
    expect(error).toMatchObject({ reason, kind, metadata: { ref } });
    expect(metadata).toEqual({ ref: "file:run/never-there" });
    expect(error.message.replace(ref, "")).toBe(message.replace("file:run/never-there", ""));
    const told = log.lines.filter(({ fields }) => fields["ref"] === ref);
    expect(told).toHaveLength(1);
    expect(told[0]?.fields).toMatchObject({ namespace: ns, why: expect.stringMatching(says) });
    expect(JSON.stringify([error.message, error.stack, error.cause ?? null, log.lines])).not.toContain(value);
  });

  test("of another namespace read as if they were not there", async () => {
    for (const ref of [await file("mine.json", `{"key":"${value}"}`), "env:MY_GOOD"])
      expect(await failure(resolve(ref, "other"))).toMatchObject({ reason: "SECRET_NOT_FOUND", metadata: { ref } });
  });

  test("to what is not stored say what to put", async () => {
    const error = await failure(resolve("secret:default/x"));
    expect(error).toMatchObject({ reason: "SECRET_NOT_FOUND", message: expect.stringMatching(/not there; put it/) });
  });
});
