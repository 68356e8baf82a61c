import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createSecrets } from "./secrets.ts";

const value = "s3cr3t-canary-value";
let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-secrets-"));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

const file = async (name: string, text: string, mode = 0o600): Promise<string> => {
  const made = path.join(dir, name);
  await writeFile(made, text);
  await chmod(made, mode);
  return `file:${made}`;
};

const failure = async (run: Promise<unknown>): Promise<HoldfastError> => {
  const error: unknown = await run.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof HoldfastError)) throw new Error(`no HoldfastError but ${String(error)}`);
  return error;
};

describe("references", () => {
  const secrets = createSecrets({ env: { GOOD: `{"key":"${value}"}`, BAD: `{"key":"${value}"`, EMPTY: "" } });

  test("nothing is behind no reference", async () => {
    expect(await secrets.resolve(undefined)).toEqual({});
    expect(await secrets.resolve("")).toEqual({});
  });

  test("a file holds one object of texts", async () => {
    expect(await secrets.resolve(await file("a.json", `{"user":"u","key":"${value}"}`))).toEqual({
      user: "u",
      key: value,
    });
  });

  test("a file is read anew for every call", async () => {
    const ref = await file("changing.json", '{"key":"one"}');
    expect(await secrets.resolve(ref)).toEqual({ key: "one" });
    await file("changing.json", '{"key":"two"}');
    expect(await secrets.resolve(ref)).toEqual({ key: "two" });
  });

  test("a directory holds one file a key, links included, machinery left out", async () => {
    const mount = path.join(dir, "mount");
    await mkdir(path.join(mount, "..data"), { recursive: true });
    await file("mount/..data/key", value);
    await symlink("..data/key", path.join(mount, "key"));
    expect(await secrets.resolve(`file:${mount}`)).toEqual({ key: value });
  });

  test("a variable holds the same JSON", async () => {
    expect(await secrets.resolve("env:GOOD")).toEqual({ key: value });
  });

  test("what everybody can read is refused, with the cure", async () => {
    const error = await failure(secrets.resolve(await file("open.json", `{"key":"${value}"}`, 0o644)));
    expect(error).toMatchObject({ kind: "precondition", reason: "SECRET_NOT_FOUND" });
    expect(error.message).toContain(`chmod o-rwx ${path.join(dir, "open.json")}`);
  });

  test.each([
    ["no file", () => Promise.resolve(`file:${dir}/gone.json`), /ENOENT/],
    ["no JSON", () => file("broken.json", `{"key": "${value}"`), /no JSON/],
    ["a list", () => file("list.json", `["${value}"]`), /one JSON object/],
    ["a number", () => file("number.json", `{"${value.slice(0, 3)}": 12345678}`), /no text/],
    ["too much", () => file("big.json", JSON.stringify({ key: value.repeat(400) })), /at most 4096/],
    ["a huge file", () => file("huge.json", `"${value.repeat(4000)}"`), /larger than/],
    ["a long key", () => file("key.json", JSON.stringify({ [`k${"x".repeat(200)}`]: "v" })), /128/],
    ["a relative path", () => Promise.resolve("file:etc/x.json"), /not known/],
    ["no variable", () => Promise.resolve("env:GONE"), /not set/],
    ["an empty variable", () => Promise.resolve("env:EMPTY"), /not set/],
    ["a broken variable", () => Promise.resolve("env:BAD"), /no JSON/],
    ["another kind", () => Promise.resolve("secrets:x"), /not known/],
    ["no stored secret", () => Promise.resolve("secret:default/x"), /not there/],
  ])("%s: the reference is named, the value never", async (_what, make, says) => {
    const ref = await make();
    const error = await failure(secrets.resolve(ref));
    expect(error.reason).toBe("SECRET_NOT_FOUND");
    expect(error.metadata).toEqual({ ref });
    expect(error.message).toMatch(says);
    expect(error.message.startsWith(`secret ${ref} `)).toBe(true);
    expect(JSON.stringify([error.message, error.stack, error.cause ?? null])).not.toContain(value);
  });
});
