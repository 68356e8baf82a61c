/** Where a secret could get out: how a text is put there, by the product's own way to it, and how all that is there is read. */
import { copyFile, mkdir, mkdtemp, readdir, readFile, readlink, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { noFailpoints } from "@holdfast/node-agent/failpoints";
import { openJournal } from "@holdfast/node-agent/volumes/journal";
import { fileWriter, namespace, plugin } from "../harness/scenario.ts";
import { formsOf, type Place, plantedIn } from "./forms.ts";
import { childrenOf, shownByProcess } from "./processes.ts";
import { type SecretWorld, volumeSecrets } from "./secret-world.ts";
import { type PlanterSink, type Planting, planterSinks } from "./start-planter.ts";

/** Each with its name. */
type Places = readonly (readonly [string, Place])[];

export interface Sink {
  readonly name: string;
  /** Puts each of them there, and answers where it has to be found. */
  readonly plant: (world: SecretWorld, texts: readonly string[]) => Promise<Places>;
  /** All that the services left or show there. */
  readonly read: (world: SecretWorld) => Promise<Places>;
  /** What is shown of a volume, but is no secret, may be there. */
  readonly keeps?: true;
  /** A word that stands there after a life; undefined: there is no such place. */
  readonly shows: (world: SecretWorld) => string | undefined;
}

const texts = (sink: string): readonly string[] => formsOf(plantedIn(sink));

/** What the process that lets everything out is told: the sinks of it, and the two of spans. */
export const planting = (otlpEndpoint: string): Planting => ({
  otlpEndpoint,
  attributes: texts("span attributes"),
  events: texts("span events"),
  memory: [...texts("heap snapshot"), ...texts("core")],
  ...{ logs: texts("logs"), metrics: texts("metrics"), argv: texts("argv"), environ: texts("environ") },
});

const services = ({ cluster }: SecretWorld) => [cluster.controller(), cluster.node("node-a").agent()] as const;

const filesBelow = async (dir: string): Promise<readonly string[]> => {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath, entry.name));
};

const filesOf = async (world: SecretWorld, start: string) => {
  const files = (await filesBelow(world.cluster.dir)).filter((file) => path.basename(file).startsWith(start));
  return await Promise.all(files.map(async (file) => [file, await readFile(file, "latin1")] as const));
};

const asText = (value: unknown): string =>
  JSON.stringify(value, (_key, item: unknown) => (typeof item === "bigint" ? `${item}` : item));

const inParameters = async ({ cluster, answers }: SecretWorld, planted: readonly string[]): Promise<void> => {
  const { create, delete: remove, list } = volumeSecrets;
  const secrets = { create, delete: remove, list };
  const parameters = Object.fromEntries(planted.map((text, at) => [`planted-${at}`, text]));
  const volume = {
    namespace,
    id: "planted",
    plugin,
    capabilities: [fileWriter],
    capacity: { requiredBytes: 16n << 20n },
  };
  answers.push(
    await cluster.volumes.createVolume({
      ...volume,
      parameters,
      secrets,
      waitFor: { seconds: 30n, nanos: 0 },
    }),
  );
};

const redisTexts = async ({ redis }: SecretWorld): Promise<readonly string[]> => {
  const admin = await redis?.admin();
  if (admin === undefined) return [];
  const readers: Readonly<Record<string, (key: string) => Promise<unknown>>> = {
    string: (key) => admin.get(key),
    hash: (key) => admin.hgetall(key),
    list: (key) => admin.lrange(key, 0, -1),
    set: (key) => admin.smembers(key),
    zset: (key) => admin.zrange(key, "0", "-1"),
    stream: (key) => admin.xrange(key, "-", "+"),
  };
  const keys = await admin.keys("*");
  return await Promise.all(
    keys.map(async (key) => {
      const read = readers[await admin.type(key)];
      if (read === undefined) throw new Error(`this test cannot read ${key}`);
      return `${key} ${asText(await read(key))}`;
    }),
  );
};

/** Of a copy: the controller holds the lock of its own file. */
const sqliteTexts = async (file: string): Promise<readonly string[]> => {
  const dir = await mkdtemp(path.join(tmpdir(), "hf-sqlite-"));
  for (const end of ["", "-wal"]) await copyFile(`${file}${end}`, path.join(dir, `copy${end}`));
  const database = new DatabaseSync(path.join(dir, "copy"));
  try {
    const tables = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all();
    return tables.flatMap(({ name }) => {
      const rows = database.prepare(`SELECT * FROM "${String(name)}"`);
      rows.setReadBigInts(true);
      return rows.all().map((row) => asText(row));
    });
  } finally {
    database.close();
    await rm(dir, { recursive: true });
  }
};

type Own = Omit<Sink, "plant"> & {
  readonly fill: (world: SecretWorld, planted: readonly string[]) => Promise<unknown>;
};

/** One that the services fill: it is read in the same way with what was planted and with what was not. */
const ownSink = ({ fill, ...sink }: Own): Sink => ({
  ...sink,
  async plant(world, planted) {
    await fill(world, planted);
    return await sink.read(world);
  },
});

const storeSink = ownSink({
  name: "store",
  shows: ({ of }) => of.inline,
  fill: inParameters,
  keeps: true,
  async read(world) {
    const { redis, cluster } = world;
    if (redis === undefined) {
      const database = path.join(cluster.dir, "store.db");
      return [["SQLite", (await sqliteTexts(database)).join("\n")], ...(await filesOf(world, "store.db"))];
    }
    const files = await Promise.all(
      (await filesBelow(redis.dir)).map(async (file) => [file, await readFile(file, "latin1")] as const),
    );
    return [["Redis", (await redisTexts(world)).join("\n")], ...files];
  },
});

const journalSink = ownSink({
  name: "journal",
  shows: ({ of }) => of.kept,
  // Beside the agent's own: no free text of a caller or a plugin gets into that one.
  async fill({ cluster }, planted) {
    const dir = path.join(cluster.dir, "planted");
    await mkdir(dir, { mode: 0o700 });
    const bounds = { maxBytes: 1 << 20, minFreeBytes: 0, onFatal: () => undefined };
    const journal = await openJournal({ dir, machine: "m", newUid: () => "u", failpoint: noFailpoints, ...bounds });
    await journal.append(
      planted.map((volumeId) => ({ volumeId })),
      "host",
      () => undefined,
    );
    await journal.close();
  },
  keeps: true,
  read: (world) => filesOf(world, "journal"),
});

const auditSink = ownSink({
  name: "audit",
  shows: ({ of }) => `"volume":"${of.kept}","method":"NodeStageVolume"`,
  async fill({ trust, answers }, planted) {
    for (const reason of planted) answers.push(await trust.revoke({ subject: "scheduler/planted", reason }));
  },
  read: async (world) =>
    (await Promise.all(["acts-", "secrets-", "calls-"].map((name) => filesOf(world, name)))).flat(),
});

const errorSink = ownSink({
  name: "errors",
  shows: () => "login with",
  // Of a call without a secret, so that nothing is struck out.
  async fill({ cluster, answers }, planted) {
    await cluster.backend.client.setFaults([
      { method: "GetCapacity", code: "INTERNAL", message: planted.join(" and ") },
    ]);
    const refused = await cluster.volumes
      .getCapacity({ plugin, capabilities: [fileWriter] })
      .catch((error: unknown) => error);
    answers.push(String(refused));
  },
  keeps: true,
  read: async ({ answers }) => [["answers and errors", asText(answers)]],
});

/** What the services show themselves; the process that lets everything out shows how. */
const ofServices: Readonly<Record<PlanterSink, Sink["read"]>> = {
  logs: async ({ cluster }) => [["the output of the processes", cluster.output()]],
  metrics: (world) =>
    Promise.all(
      services(world).map(async (service) => {
        const line = await service.line((l) => l["message"] === "admin listening", "its admin address");
        return [service.name, await (await fetch(`http://${String(line["address"])}/metrics`)).text()] as const;
      }),
    ),
  async argv(world) {
    const pids = services(world).map(({ pid }) => pid);
    const all = [...pids, ...(await childrenOf(pids))];
    const shown = await Promise.all(
      all.map(async (pid) => [`argv of ${pid}`, (await shownByProcess(pid)).argv] as const),
    );
    return [...shown, ["a program of the agent", await readFile(world.childFile, "utf8")]];
  },
  async environ(world) {
    const children = await childrenOf(services(world).map(({ pid }) => pid));
    const shown = children.map(async (pid) => [`environ of ${pid}`, (await shownByProcess(pid)).environ] as const);
    return [...(await Promise.all(shown)), ["a program of the agent", await readFile(world.childFile, "utf8")]];
  },
  // Each way to one is refused at the start (refuse-debugging.test.ts, security-f-sigusr1.test.ts).
  "heap snapshot": async () => [],
  async core(world) {
    const dirs = await Promise.all(services(world).map(({ pid }) => readlink(`/proc/${pid}/cwd`)));
    const before = new Set(await coresIn(dirs));
    for (const service of services(world)) await service.kill("SIGABRT");
    const left = (await coresIn(dirs)).filter((file) => !before.has(file));
    return await Promise.all(left.map(async (file) => [file, await readFile(file)] as const));
  },
};

const coresIn = async (dirs: readonly string[]): Promise<readonly string[]> =>
  (
    await Promise.all(
      [...new Set(dirs)].map(async (dir) =>
        (await readdir(dir)).filter((name) => /^core(\.\d+)?$/.test(name)).map((name) => path.join(dir, name)),
      ),
    )
  ).flat();

const shownBy: Readonly<Record<PlanterSink, Sink["shows"]>> = {
  logs: ({ of }) => of.kept,
  metrics: () => plugin,
  argv: () => "services/controller/src/main.ts",
  environ: () => "LC_ALL=C",
  "heap snapshot": () => undefined,
  core: () => undefined,
};

/** Those of the one process were filled at its start. The cores come last: with them the services end. */
export const sinksWith = (planter: Readonly<Record<PlanterSink, Place>>): readonly Sink[] => [
  errorSink,
  storeSink,
  journalSink,
  auditSink,
  ...["span attributes", "span events"].map((name) =>
    ownSink({
      name,
      shows: ({ of }) => of.kept,
      fill: async () => undefined,
      read: async ({ traces }) => [["what the collector got", traces.raw()]],
    }),
  ),
  ...planterSinks.map(
    (name): Sink => ({
      name,
      plant: async () => [[`the planter's ${name}`, planter[name]]],
      read: ofServices[name],
      shows: shownBy[name],
    }),
  ),
];
