/** The cure of RECORD_DAMAGED, as `repair stuck` prints it: the backup of before is put into an empty store, and a controller starts with it. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { createSqliteStore } from "@holdfast/controller/store/sqlite/sqlite-store";
import { expect, onTestFinished, test } from "vitest";
import { cliRun } from "../cli/cli-run.ts";
import { serveApi } from "../support/controller/served-api.ts";
import { linesOf } from "../support/controller/typed-lines.ts";
import { createWorld } from "../support/controller/world.ts";

const startWith = async (file: string) => {
  const store = createSqliteStore({ file, now: Date.now, uuid: () => crypto.randomUUID() });
  const world = await createWorld({ store });
  const api = await serveApi(world);
  const close = async (): Promise<void> => {
    await api.close();
    await world.close();
  };
  onTestFinished(close);
  const stuck = async () => {
    const { code, out, err } = await cliRun(["repair", "stuck", "--json"], { address: api.address });
    expect(code, err).toBe(0);
    return (JSON.parse(out) as { readonly stuck: readonly { blocked: { reason: string; clear_with: string } }[] })
      .stuck;
  };
  return { world, api, stuck, close };
};

test("the cure of RECORD_DAMAGED: a store with the last backup in it", async () => {
  const dir = await mkdtemp(path.join(tmpdir(), "hf-damaged-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  const [old, fresh, backup] = ["old.db", "new.db", "last.export"].map((name) => path.join(dir, name)) as [
    ...[string, string, string],
  ];
  const offline = async (line: string, file: string): Promise<void> => {
    const env = { HOLDFAST_STORE: `sqlite://${file}`, HOLDFAST_STATE_DIR: path.join(dir, "state") };
    const { code, out, err } = await cliRun(line.split(" ").slice(1), { env });
    expect(code, `${line}: ${out}${err}`).toBe(0);
  };

  const before = await startWith(old);
  for (const id of ["hurt", "sound"]) await before.world.makeVolume(id);
  await before.close();
  await offline(`holdfast export ${backup}`, old);
  const database = new DatabaseSync(old);
  database.exec("UPDATE records SET body = substr(body, 1, 40) WHERE kind = 'volume' AND key = 'default/hurt'");
  database.close();

  const hurt = await startWith(old);
  await expect(hurt.world.volume("hurt")).rejects.toMatchObject({ reason: "RECORD_DAMAGED" });
  const [told, ...others] = await hurt.stuck();
  expect(others).toEqual([]);
  expect(told?.blocked.reason).toBe("RECORD_DAMAGED");
  const [line = "", ...more] = linesOf(told?.blocked.clear_with ?? "");
  expect(more).toEqual([]);
  await hurt.close();

  await offline(line.replace("<file>", backup), fresh);
  const after = await startWith(fresh);
  for (const id of ["hurt", "sound"]) expect((await after.world.volume(id)).state).toBe("AVAILABLE");
  expect(await after.stuck()).toEqual([]);
});
