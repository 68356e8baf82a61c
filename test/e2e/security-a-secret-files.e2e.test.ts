import { chmod, mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { VolumeState } from "@holdfast/shared/gen/holdfast/v1/volume";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { startProcess } from "../harness/managed-process.ts";
import { fileWriter, plugin } from "../harness/scenario.ts";

const repo = path.resolve(import.meta.dirname, "../..");
const password = "canary-of-the-settings-5d1e";

const told = (error: unknown): string =>
  error instanceof HoldfastError ? `${error.reason} ${error.message}` : String(error);

/** Whoever may create a volume chooses the plugin, and the plugin gets the values behind the references. */
describe("security a: a caller who may create a volume", () => {
  let cluster: Cluster;
  let dir: string;

  beforeAll(async () => {
    dir = await mkdtemp(path.join(tmpdir(), "hf-sec-a-"));
    for (const each of ["settings", "secrets"]) await mkdir(path.join(dir, each), { mode: 0o700 });
    const write = (name: string, text: string) => writeFile(path.join(dir, name), text, { mode: 0o600 });
    await write("settings/controller.env", `HOLDFAST_STORE=redis://:${password}@redis`);
    await write("secrets/array.json", JSON.stringify({ token: "granted" }));
    cluster = await startCluster({
      nodes: [],
      controllerEnv: {
        HOLDFAST_SECRET_FILES: `run=${dir}/secrets@team`,
        HOLDFAST_SECRET_ENV: "ARRAY_@team",
        ARRAY_LOGIN: JSON.stringify({ token: "granted" }),
        OWN_PASSWORD: JSON.stringify({ token: password }),
      },
    });
  });
  afterAll(async () => {
    await cluster?.stop();
    await rm(dir, { recursive: true, force: true });
  });

  const create = (id: string, ref: string, namespace = "team") =>
    cluster.volumes.createVolume({
      namespace,
      id,
      plugin,
      capacity: { requiredBytes: 1n << 20n },
      capabilities: [fileWriter],
      secrets: { create: { ref } },
      waitFor: { seconds: 3n, nanos: 0 },
    });

  /** The keys of the secrets that the plugin was sent, call by call. */
  const sent = async (): Promise<readonly (readonly string[])[]> =>
    (await cluster.backend.client.record()).flatMap(({ method, request }) =>
      method === "CreateVolume" ? [(request as { secrets: { keys: string[] } }).secrets.keys] : [],
    );

  it("sends the plugin nothing of what the controller can read and nobody granted", async () => {
    await cluster.backend.client.clear();
    const state = path.join(cluster.dir, "controller");
    for (const name of await readdir(state)) await chmod(path.join(state, name), 0o600);
    const refs = [
      `file:${dir}/settings`,
      `file:${state}`,
      `file:${dir}/secrets/array.json`,
      "file:run/../settings",
      "file:settings/controller.env",
      "file:walk/array.json",
      "env:OWN_PASSWORD",
      "env:HOLDFAST_STORE",
      "vault:kv/storage",
    ];
    const answers = await Promise.all(
      refs.map((ref, i) =>
        create(`v${i}`, ref).then(
          () => `${ref} is taken`,
          (error: unknown) => told(error),
        ),
      ),
    );
    expect(await sent()).toEqual([]);
    for (const answer of answers) expect(answer).toMatch(/^INVALID_ARGUMENT secrets\.create\.ref: /);
    expect((await cluster.volumes.listVolumes({})).volumes).toEqual([]);
  });

  it("names what its namespace was granted, and another namespace learns not even that it is there", async () => {
    await cluster.backend.client.clear();
    for (const [id, ref] of [
      ["file", "file:run/array.json"],
      ["env", "env:ARRAY_LOGIN"],
    ] as const)
      expect((await create(id, ref)).volume?.state).toBe(VolumeState.VOLUME_STATE_AVAILABLE);
    expect(await sent()).toEqual([["token"], ["token"]]);
    const refusal = (ref: string) =>
      create("other", ref, "other").then(
        () => "taken",
        (error: unknown) => told(error),
      );
    const [there, gone] = await Promise.all([refusal("file:run/array.json"), refusal("file:none/gone.json")]);
    expect(there).toMatch(/^INVALID_ARGUMENT /);
    expect(there).toBe(gone);
  });

  it("with a controller whose settings would open its own files finds none: it does not start", async () => {
    const controller = startProcess({
      name: "open controller",
      command: [process.execPath, path.join(repo, "services/controller/src/main.ts")],
      env: {
        HOLDFAST_LISTEN: "127.0.0.1:0",
        HOLDFAST_AGENT_LISTEN: "127.0.0.1:0",
        HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
        HOLDFAST_STATE_DIR: path.join(dir, "state"),
        HOLDFAST_PLUGIN_DIR: path.join(dir, "plugins"),
        HOLDFAST_SECRET_FILES: `all=${dir}@*`,
      },
    });
    expect(await controller.exited()).toBe(78);
    expect(await readdir(dir)).not.toContain("state");
  });
});
