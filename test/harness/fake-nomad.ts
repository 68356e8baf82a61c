/**
 * A client of Nomad as it drives a plugin of dynamic host volumes (1.10 and later, client/hostvolumemanager): an environment of the DHV_*
 * variables alone, a limit for each operation after which the process is killed, a request that is kept only once it was answered, and all
 * requests that are kept at once when the client starts, where a failure is only logged.
 */
import { spawn } from "node:child_process";
import { copyFile, mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";

export interface NomadSpec {
  readonly namespace: string;
  readonly id: string;
  readonly name?: string;
  readonly capacityMin?: number;
  readonly capacityMax?: number;
  readonly parameters?: Readonly<Record<string, string>>;
}

export interface CreatedVolume {
  readonly path: string;
  readonly bytes: number;
}

export interface FakeNomad {
  fingerprint(): Promise<unknown>;
  /** `nomad volume create`. Killed after `killAfterMs`. */
  create(spec: NomadSpec, killAfterMs?: number): Promise<CreatedVolume>;
  /** `nomad volume delete`. */
  remove(id: string, namespace?: string): Promise<void>;
  /** The client starts: where each volume is, or why it is not. */
  restart(): Promise<ReadonlyMap<string, CreatedVolume | Error>>;
  readonly volumesDir: string;
}

/** Of Nomad itself. */
export const limits = { fingerprintMs: 5_000, startMs: 50_000, rpcMs: 60_000 };

const executable = path.resolve(import.meta.dirname, "../../deploy/nomad/holdfast");

export const createFakeNomad = async (dir: string, socket: string): Promise<FakeNomad> => {
  const [pluginDir, volumesDir] = [path.join(dir, "plugins"), path.join(dir, "volumes")];
  for (const one of [pluginDir, volumesDir]) await mkdir(one, { recursive: true });
  const plugin = path.join(pluginDir, "holdfast");
  await copyFile(executable, plugin);
  await writeFile(`${plugin}.conf`, `socket=${socket}\n`);
  /** The state of the client. */
  const kept = new Map<string, NomadSpec>();
  const paths = new Map<string, string>();

  const run = async (operation: string, env: Readonly<Record<string, string>>, limitMs: number): Promise<string> => {
    const child = spawn(plugin, [operation], {
      env: { DHV_OPERATION: operation, ...env } as unknown as NodeJS.ProcessEnv,
      stdio: ["ignore", "pipe", "pipe"],
    });
    const ended = new Promise<string>((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", (code, signal) => resolve(signal ?? `exit status ${code}`));
    });
    const limit = new AbortController();
    const killed = sleep(limitMs, undefined, { signal: limit.signal }).then(
      () => void child.kill("SIGKILL"),
      () => undefined,
    );
    const [out, err] = [child.stdout, child.stderr].map((stream) => text(stream).catch(() => ""));
    const how = await ended;
    limit.abort();
    await killed;
    if (how === "SIGKILL") {
      // What the plugin had started may hold the other ends.
      for (const stream of [child.stdout, child.stderr]) stream.destroy();
      throw new Error("signal: killed");
    }
    if (how !== "exit status 0") throw new Error(`${how}: ${await err}`);
    return (await out) ?? "";
  };

  const common = ({ namespace, id, name, parameters }: NomadSpec): Readonly<Record<string, string>> => ({
    DHV_VOLUMES_DIR: volumesDir,
    DHV_PLUGIN_DIR: pluginDir,
    DHV_NODE_POOL: "default",
    DHV_NAMESPACE: namespace,
    DHV_VOLUME_NAME: name ?? id,
    DHV_VOLUME_ID: id,
    DHV_NODE_ID: "0b62d807-6101-a80f-374d-e1c430abbf47",
    DHV_PARAMETERS: parameters === undefined ? "null" : JSON.stringify(parameters),
  });

  const created = async (spec: NomadSpec, limitMs: number): Promise<CreatedVolume> => {
    const capacity = {
      DHV_CAPACITY_MIN_BYTES: String(spec.capacityMin ?? 0),
      DHV_CAPACITY_MAX_BYTES: String(spec.capacityMax ?? 0),
    };
    const answer = JSON.parse(await run("create", { ...common(spec), ...capacity }, limitMs)) as CreatedVolume;
    paths.set(spec.id, answer.path);
    return { path: answer.path, bytes: answer.bytes };
  };

  return {
    volumesDir,
    fingerprint: async () => JSON.parse(await run("fingerprint", {}, limits.fingerprintMs)),
    async create(spec, killAfterMs = limits.rpcMs) {
      const volume = await created(spec, killAfterMs);
      kept.set(spec.id, spec);
      return volume;
    },
    async remove(id, namespace = "default") {
      const spec = kept.get(id) ?? { namespace, id };
      await run("delete", { ...common(spec), DHV_CREATED_PATH: paths.get(id) ?? "" }, limits.rpcMs);
      kept.delete(id);
    },
    async restart() {
      const restored = [...kept.values()].map(async (spec) => {
        const result = await created(spec, limits.startMs).catch((error: Error) => error);
        return [spec.id, result] as const;
      });
      return new Map(await Promise.all(restored));
    },
  };
};
