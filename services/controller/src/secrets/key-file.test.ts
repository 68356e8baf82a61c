import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createKeyFile } from "./key-file.ts";

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-keys-"));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

const line = (id: string, fill = 1): string => `${id} ${Buffer.alloc(32, fill).toString("base64")}`;
const write = async (name: string, text: string, mode = 0o600): Promise<string> => {
  const file = path.join(dir, name);
  await writeFile(file, text);
  await chmod(file, mode);
  return file;
};

describe("the key file", () => {
  test("encrypts with its first line and knows the others", async () => {
    const file = await write("good", `# ours\n\n${line("new", 2)}\n${line("old", 1)}\n`);
    const { first, byId } = await createKeyFile(file).keys();
    expect(first.id).toBe("new");
    expect([...byId.keys()]).toEqual(["new", "old"]);
  });

  test("counts at the next use once it is changed", async () => {
    const keyFile = createKeyFile(await write("changing", line("one")));
    expect((await keyFile.keys()).first.id).toBe("one");
    await write("changing", `${line("second", 2)}\n${line("one")}`);
    expect((await keyFile.keys()).first.id).toBe("second");
  });

  test.each([
    ["is not set", undefined, /HOLDFAST_SECRET_KEYS/],
    ["is not there", () => Promise.resolve("/nowhere/keys"), /ENOENT/],
    ["is empty", () => write("empty", "# nothing\n"), /holds no key/],
    ["is for everybody", () => write("open", line("a"), 0o640), /chmod 600/],
    ["has a short key", () => write("short", `a ${Buffer.alloc(16, 9).toString("base64")}`), /line 1/],
    ["has an id twice", () => write("twice", `${line("a")}\n${line("a", 2)}`), /line 2/],
  ])("that %s says so, and no key", async (_what, make, says) => {
    const failure = await createKeyFile(await make?.())
      .keys()
      .catch((error: unknown) => error);
    expect(failure).toMatchObject({ reason: "SECRETS_UNAVAILABLE", message: expect.stringMatching(says) });
    expect(String(failure)).not.toContain(Buffer.alloc(16, 9).toString("base64").slice(0, 12));
  });
});
