import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { ConfigError } from "@holdfast/shared/config/config-error";
import { describe, expect, onTestFinished, test } from "vitest";
import { type ProofSources, readHostProof, systemSources } from "./host-proof.ts";

const dmi = "/sys/class/dmi/id/product_uuid";
const uuid = "4C4C4544-0042-3510-8053-B4C04F4E3233";
const sources = (
  files: Readonly<Record<string, string>>,
  programs: Readonly<Record<string, string>> = {},
): ProofSources => ({
  read: async (file) => files[file],
  async run(program) {
    const printed = programs[program];
    if (printed === undefined) throw new Error("exit code 1");
    return printed;
  },
});
const identityOf = async (setting: string | undefined, given: ProofSources): Promise<string> =>
  (await readHostProof(setting, given)).identity;

describe("what a copy of this host does not have", () => {
  test("is the product UUID, however its letters are written, and told as a digest [HP2]", async () => {
    const told = await identityOf(undefined, sources({ [dmi]: `${uuid}\n` }));
    expect(told).toMatch(/^[0-9a-f]{32}$/);
    expect(await identityOf(undefined, sources({ [dmi]: uuid.toLowerCase() }))).toBe(told);
  });

  test.each([
    ["no file", {}],
    ["zeros", { [dmi]: "00000000-0000-0000-0000-000000000000" }],
    ["ones", { [dmi]: "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF" }],
    ["what the maker of the board left there", { [dmi]: "03000200-0400-0500-0006-000700080009" }],
    ["words", { [dmi]: "Not Settable" }],
  ])(
    "is nothing where the DMI has %s, and it says so [HP3]",
    async (_what, files: Readonly<Record<string, string>>) => {
      expect(await readHostProof(undefined, sources(files))).toEqual({
        identity: "",
        from: expect.stringContaining(dmi),
      });
    },
  );

  test("is nothing when a person says none, whatever the DMI has", async () => {
    expect(await identityOf("none", sources({ [dmi]: uuid }))).toBe("");
  });

  test("is never the same from two sources [HP1]", async () => {
    const given = sources({ [dmi]: uuid, "/id": uuid.toLowerCase() }, { "/bin/id": uuid.toLowerCase() });
    const told = [undefined, "file:/id", "exec:/bin/id", uuid.toLowerCase()].map((setting) =>
      identityOf(setting, given),
    );
    expect(new Set(await Promise.all(told)).size).toBe(4);
  });

  test.each([
    ["file:/none", "names /none, which tells nothing"],
    ["file:/empty", "names /empty, which tells nothing"],
    ["exec:/bin/none", "names the program /bin/none, which failed: exit code 1"],
    ["exec:/bin/empty", "names /bin/empty, which tells nothing"],
    ["file:/long", "names /long, which tells more than 1024 bytes"],
  ])("%s is refused as a setting", async (setting, words) => {
    const given = sources({ "/empty": " \n", "/long": "x".repeat(1_025) }, { "/bin/empty": "" });
    const error = await readHostProof(setting, given).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ConfigError);
    expect(error).toMatchObject({
      violations: [{ field: "HOLDFAST_HOST_IDENTITY", description: expect.stringContaining(words) }],
    });
  });

  test("is what a program prints", async () => {
    const dir = await mkdtemp(path.join(tmpdir(), "hf-proof-"));
    onTestFinished(() => rm(dir, { recursive: true }));
    const program = path.join(dir, "id");
    await writeFile(program, "#!/bin/sh\necho i-0123\n", { mode: 0o700 });
    expect(await identityOf(`exec:${program}`, systemSources)).toBe(
      await identityOf("exec:/bin/id", sources({}, { "/bin/id": "i-0123" })),
    );
    await expect(readHostProof(`exec:${dir}`, systemSources)).rejects.toThrow(ConfigError);
  });

  test("a program is told nothing of this process: no setting, no secret", async () => {
    process.env["HOLDFAST_CANARY"] = "canary-env";
    onTestFinished(() => void delete process.env["HOLDFAST_CANARY"]);
    expect(await systemSources.run("/usr/bin/env")).not.toContain("canary-env");
  });
});
