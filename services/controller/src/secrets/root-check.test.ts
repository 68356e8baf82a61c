import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { forbiddenPlaces, unfitRoots } from "./root-check.ts";

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-roots-"));
  for (const one of ["state/own", "run/secrets", "conf"]) await mkdir(path.join(dir, one), { recursive: true });
  await symlink("state", path.join(dir, "alias"));
  for (const one of ["run/keys", "run/token", "conf/password", "db"]) await writeFile(path.join(dir, one), "");
});
afterAll(() => rm(dir, { recursive: true, force: true }));

const unfit = (root: string) =>
  unfitRoots(
    { files: [{ name: "r", dir: root, namespaces: [] }] },
    forbiddenPlaces({
      stateDir: path.join(dir, "state"),
      store: `sqlite://${dir}/db`,
      secretKeys: path.join(dir, "run/keys"),
      vaultTokenFile: path.join(dir, "run/token"),
      backup: path.join(dir, "backups"),
      auditDir: path.join(dir, "audit"),
      env: { HOLDFAST_STORE_FILE: path.join(dir, "conf/password"), PATH: "/bin" },
    }),
  ).map(({ description }) => description);

describe("a root of secrets", () => {
  test("of its own is taken, whether it is there or not", () => {
    expect(unfit(path.join(dir, "run/secrets"))).toEqual([]);
    expect(unfit(path.join(dir, "run/later/on"))).toEqual([]);
    expect(unfit(path.join(dir, "state-of-others"))).toEqual([]);
  });

  test.each([
    ["the state directory", () => path.join(dir, "state"), /HOLDFAST_STATE_DIR/],
    ["a place in it", () => path.join(dir, "state/own"), /HOLDFAST_STATE_DIR/],
    ["a link to it", () => path.join(dir, "alias"), /HOLDFAST_STATE_DIR/],
    ["a place behind a link to it that is not there yet", () => path.join(dir, "alias/later"), /HOLDFAST_STATE_DIR/],
    ["what holds the key file", () => path.join(dir, "run"), /HOLDFAST_SECRET_KEYS/],
    ["what holds the token", () => path.join(dir, "run"), /HOLDFAST_VAULT_TOKEN_FILE/],
    ["the directory of backups", () => path.join(dir, "backups"), /HOLDFAST_BACKUP/],
    ["the audit", () => path.join(dir, "audit"), /HOLDFAST_AUDIT_DIR/],
    ["what holds the value of a setting", () => path.join(dir, "conf"), /HOLDFAST_STORE_FILE/],
    ["what holds the store", () => dir, /HOLDFAST_STORE\)/],
    ["the settings", () => "/etc/holdfast", /settings/],
    ["what holds the settings", () => "/etc", /settings/],
    ["a place among the settings", () => "/etc/holdfast/secrets", /settings/],
    ["the own environment", () => "/proc/self", /environment/],
  ])("that is %s is refused", (_what, root, says) => {
    expect(unfit(root()).join()).toMatch(says);
  });
});
