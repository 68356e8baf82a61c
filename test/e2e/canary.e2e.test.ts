import { randomBytes } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { PluginServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { csi113 } from "@holdfast/sim-plugin/backend/capabilities";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { type OtlpReceiver, startOtlpReceiver } from "../harness/otlp-receiver.ts";
import {
  claimVolume,
  expectClean,
  fileWriter,
  namespace,
  plugin,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";
import { type RedisServer, startRedisServer } from "../support/redis-server.ts";
import { tokenKeyLine } from "../support/token-keys.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const canary = "cAnArY/7f3+secret=value";
/** How every identity token begins, whatever it says. */
const token = Buffer.from('{"alg":"ES256","typ":"JWT"').toString("base64url").slice(0, -1);
/** Every form in which it could slip out. */
const forms: readonly string[] = [
  canary,
  Buffer.from(canary).toString("base64").replace(/=+$/, ""),
  Buffer.from(canary).toString("base64url"),
  Buffer.from(canary).toString("hex"),
  encodeURIComponent(canary),
  JSON.stringify(canary).slice(1, -1),
];
const sought = [...forms, token, Buffer.from(token).toString("hex"), Buffer.from(token).toString("base64url")];

const everyFile = async (dir: string): Promise<readonly string[]> => {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true });
  return entries.filter((e) => e.isFile()).map((e) => path.join(e.parentPath, e.name));
};

const asText = (value: unknown): string =>
  JSON.stringify(value, (_key, item: unknown) => (typeof item === "bigint" ? `${item}` : item));

/** By the beginning of the name of its file. */
const stores = ["store.db", "appendonly.aof"] as const;

describe.skipIf(!root).each(stores)("secrets, over a store of %s,", (store) => {
  let redis: RedisServer | undefined;
  let cluster: Cluster;
  let traces: OtlpReceiver;
  let keys: string;

  beforeAll(async () => {
    keys = await mkdtemp(path.join(tmpdir(), "hf-canary-keys-"));
    const keyFile = path.join(keys, "keys");
    await writeFile(keyFile, `first ${randomBytes(32).toString("base64")}\n`, { mode: 0o600 });
    await writeFile(path.join(keys, "tokens"), `${tokenKeyLine("first")}\n`, { mode: 0o600 });
    traces = await startOtlpReceiver();
    redis = store === "appendonly.aof" ? await startRedisServer() : undefined;
    const secrets = { token: canary };
    cluster = await startCluster({
      nodes: ["node-a"],
      ...(redis === undefined ? {} : { store: redis.url }),
      realMounts: true,
      otlpEndpoint: traces.endpoint,
      logLevel: "debug",
      controllerEnv: {
        CANARY_SECRET: JSON.stringify(secrets),
        HOLDFAST_SECRET_ENV: "CANARY_@*",
        HOLDFAST_SECRET_KEYS: keyFile,
        HOLDFAST_TOKEN_KEYS: path.join(keys, "tokens"),
        HOLDFAST_TOKEN_ISSUER: "https://tokens.example.com",
      },
      agentEnv: { HOLDFAST_STATS_MAX_AGE: "1s" },
      backend: {
        capabilities: csi113,
        secrets: {
          CreateVolume: secrets,
          ControllerPublishVolume: secrets,
          ControllerUnpublishVolume: secrets,
          NodeStageVolume: secrets,
          NodePublishVolume: secrets,
          DeleteVolume: secrets,
        },
      },
    });
  });
  afterAll(async () => {
    await cluster.stop();
    await redis?.stop();
    await traces.close();
    await rm(keys, { recursive: true, force: true });
  });

  /** What everybody on the machine may read of the services and of what they start; the controller was given the value as a variable. */
  const ofProcesses = async (): Promise<readonly [string, string][]> => {
    const controller = cluster.controller().pid;
    const agent = cluster.node("node-a").agent().pid;
    const told = await Promise.all(
      (await readdir("/proc"))
        .filter((name) => /^\d+$/.test(name))
        .map((pid) => ofProcess(Number(pid), controller, agent)),
    );
    return told.flat();
  };
  const ofProcess = async (pid: number, controller: number, agent: number): Promise<[string, string][]> => {
    const text = (name: string) => readFile(`/proc/${pid}/${name}`, "latin1").catch(() => "");
    const parent = Number(/\) \S (\d+) /.exec(await text("stat"))?.[1]);
    if (![pid, parent].some((one) => one === controller || one === agent)) return [];
    const environ: [string, string][] = pid === controller ? [] : [[`environ of ${pid}`, await text("environ")]];
    return [[`argv of ${pid}`, await text("cmdline")], ...environ];
  };

  /** Everything that anybody but the plugin could read. `told`: a word that is no secret, and that was said where the secret might be. */
  const expectNowhere = async (answers: readonly unknown[], told: string): Promise<void> => {
    await expect.poll(() => traces.raw().includes(told)).toBe(true);
    const metrics = await Promise.all(
      [cluster.controller(), cluster.node("node-a").agent()].map(async (service) => {
        const line = await service.line((l) => l["message"] === "admin listening", "its admin address");
        return (await fetch(`http://${String(line["address"])}/metrics`)).text();
      }),
    );
    const places: [string, string][] = [
      ["logs", cluster.output()],
      ["spans", traces.raw()],
      ["metrics", metrics.join("\n")],
      ["answers", asText(answers)],
    ];
    const files = [...(await everyFile(cluster.dir)), ...(redis === undefined ? [] : await everyFile(redis.dir))];
    for (const file of files) places.push([file, await readFile(file, "latin1")]);
    const trail = (name: string) => places.filter(([where]) => path.basename(where).startsWith(`${name}-`));
    if (told === "kept") {
      for (const method of ["CreateVolume", "NodePublishVolume"])
        expect(
          trail("calls").filter(([, text]) => text.includes(`"method":"${method}"`)),
          method,
        ).toHaveLength(1);
      expect(trail("secrets")[0]?.[1]).toContain('"volume":"kept","method":"NodeStageVolume"');
    }
    expect(trail("calls").length + trail("secrets").length + trail("acts").length).toBe(5);
    const processes = await ofProcesses();
    // Each place is looked into: what may be told there is found.
    for (const [where, text] of places.filter(([where]) => ["logs", "spans", "answers"].includes(where)))
      expect(text.includes(told), `${told} in ${where}`).toBe(true);
    for (const kind of ["journal", store]) {
      const texts = places.filter(([where]) => path.basename(where).startsWith(kind)).map(([, text]) => text);
      expect(
        texts.some((text) => text.includes(told)),
        `${told} in a ${kind}`,
      ).toBe(true);
    }
    expect(metrics.every((text) => text.includes("# HELP") && text.includes(plugin))).toBe(true);
    expect(processes.filter(([, text]) => text.includes("main.ts"))).toHaveLength(2);
    expect(processes.some(([where, text]) => where.startsWith("environ") && text.includes("HOLDFAST_"))).toBe(true);
    for (const [where, text] of [...places, ...processes]) {
      for (const form of sought) {
        expect(text.includes(form), `${form} in ${where}`).toBe(false);
        // The same search finds what was planted behind it.
        expect(`${text}${form}`.includes(form)).toBe(true);
      }
    }
  };

  // What is only referred to rests in no store: one of them shows it.
  it.runIf(store === "store.db")(
    "[I10] reach the plugin, and appear in no log, span, error, metric, store or journal, also when the plugin repeats them",
    async () => {
      const ref = "env:CANARY_SECRET";
      const created = await cluster.volumes.createVolume({
        namespace,
        id: "kept",
        plugin,
        capacity: { requiredBytes: 1n << 20n },
        capabilities: [fileWriter],
        policy: { identityTokens: [{ audience: "vault" }], requiresRepublish: true },
        secrets: {
          create: { ref },
          delete: { ref },
          controllerPublish: { ref },
          nodeStage: { ref },
          nodePublish: { ref },
        },
        waitFor: { seconds: 30n, nanos: 0 },
      });
      expect(created.volume?.externalId).not.toBe("");
      // The plugin tells the secret in its error texts: once on each call that carries it.
      await cluster.backend.client.setFaults(
        (
          [
            "ControllerPublishVolume",
            "NodeStageVolume",
            "NodePublishVolume",
            "ControllerUnpublishVolume",
            "DeleteVolume",
          ] as const
        ).map((method) => ({
          method,
          code: "INTERNAL",
          message: `login with ${forms.join(" and ")} failed`,
          times: 1,
        })),
      );
      const claim = await claimVolume(cluster, "kept");
      expect(stateName(claim)).toBe("ACTIVE");
      const listed = await cluster.claims.listClaims({ filter: { namespace } });
      const explained = await cluster.volumes.explainVolume({ namespace, id: "kept" });
      await releaseWorkload(cluster, "w-kept");
      await removeVolume(cluster, "kept");
      await expectClean(cluster);
      const seen = await cluster.backend.client.record();
      for (const method of [
        "CreateVolume",
        "ControllerPublishVolume",
        "NodeStageVolume",
        "NodePublishVolume",
        "ControllerUnpublishVolume",
        "DeleteVolume",
      ])
        expect(
          seen.some((c) => c.method === method && /"keys":\[[^\]]*"token"\]/.test(asText(c.request))),
          method,
        ).toBe(true);
      const told = '"keys":["csi.storage.k8s.io/serviceAccount.tokens","token"]';
      expect(seen.filter((c) => asText(c.request).includes(told)).map((c) => c.method)).toEqual([
        "NodePublishVolume",
        "NodePublishVolume",
      ]);
      await traces.until((all) => all.some((s) => s.name.endsWith("DeleteVolume")), "DeleteVolume");

      await expectNowhere([created, claim, listed, explained], "kept");
    },
  );

  it("[I10] that are stored, or came with a request, are ciphertext alone wherever they rest, and in no event", async () => {
    const values = { token: canary };
    const from = await cluster.events.watchEvents({})[Symbol.asyncIterator]().next();
    const put = await cluster.secrets.putSecret({ namespace, name: "array", values });
    expect(put.version).toBe(1n);
    const ref = "secret:array";
    const spec = {
      namespace,
      plugin,
      capacity: { requiredBytes: 1n << 20n },
      capabilities: [fileWriter],
      waitFor: { seconds: 30n, nanos: 0 },
    };
    const all = {
      create: { ref },
      delete: { ref },
      controllerPublish: { ref },
      nodeStage: { ref },
      nodePublish: { ref },
    };
    const stored = await cluster.volumes.createVolume({ ...spec, id: "stored", secrets: all });
    const inline = await cluster.volumes.createVolume({ ...spec, id: "inline", inlineSecrets: values });
    for (const { volume } of [stored, inline]) expect(volume?.externalId).not.toBe("");
    expect(inline.volume?.secrets?.nodeStage?.ref).toBe("secret:volume.inline@1");
    const claims = [await claimVolume(cluster, "stored"), await claimVolume(cluster, "inline")];
    expect(claims.map(stateName)).toEqual(["ACTIVE", "ACTIVE"]);
    const refused = await cluster.secrets.deleteSecret({ namespace, name: "array" }).catch((error: unknown) => error);
    expect(String(refused)).toContain("is referred to by volume");
    const tooLong = await cluster.secrets
      .putSecret({ namespace, name: "array", values: { token: canary.repeat(300) } })
      .catch((error: unknown) => error);
    expect(String(tooLong)).toContain("values");
    for (const id of ["stored", "inline"]) {
      await releaseWorkload(cluster, `w-${id}`);
      await removeVolume(cluster, id);
    }
    await cluster.secrets.deleteSecret({ namespace, name: "array" });
    await expectClean(cluster);
    const told: unknown[] = [];
    for await (const message of cluster.events.watchEvents({ resumeToken: from.value?.resumeToken ?? "" })) {
      told.push(message);
      if (message.event?.reason === "SECRET_DELETED") break;
    }
    expect(told.length).toBeGreaterThan(10);
    const listed = await cluster.secrets.listSecrets({ namespace });
    expect(listed.secrets.map(({ name }) => name)).toEqual(["volume.inline"]);
    const acts = (await everyFile(cluster.dir)).filter((file) => path.basename(file).startsWith("acts-"));
    const audit = await Promise.all(acts.map((file) => readFile(file, "utf8")));
    for (const method of ["PutSecret", "DeleteSecret", "CreateVolume"]) expect(audit.join("")).toContain(`/${method}"`);
    await expectNowhere([put, stored, inline, claims, listed, told, String(refused), String(tooLong)], "stored");
  });

  it("[I10] of the question for the health of the storage reach its plugin, and are told by no answer of it", async () => {
    const channel = createGrpcChannel(cluster.address);
    onTestFinished(() => channel.close());
    const log = createMemoryLogger();
    const plugins = createGrpcClient(PluginServiceDefinition, channel, {
      log,
      identity: { role: "operator", name: "o1" },
    });
    const asked = async () =>
      (await cluster.backend.client.record()).filter((call) => call.method === "NodeGetStorageHealth");
    const withSecret = async () => (await asked()).some(({ request }) => asText(request).includes('"keys":["token"]'));
    await until("the plugin to be asked", async () => (await asked()).length > 0);
    expect(await withSecret()).toBe(false);
    const nodeHealthSecret = { secret: { ref: "env:CANARY_SECRET" }, namespace };
    const set = await plugins.setPluginProfile({ name: plugin, profile: { nodeHealthSecret } });
    expect(set.plugin?.profile?.nodeHealthSecret).toEqual(nodeHealthSecret);
    await until("it to be asked with its secret", withSecret);
    // It repeats the secret in what it tells.
    const message = `login with ${forms.join(" and ")} failed`;
    await cluster.backend.client.setStorageHealth("node-a", [{ status: 1, reason: "PathLost", message }]);
    const told = await until("what it says to be shown", async () => {
      const { node } = await cluster.nodes.getNode({ name: "node-a" });
      return node?.plugins.some(({ storageHealth }) => storageHealth.length > 0) ? node : undefined;
    });
    const elsewhere = { secret: { ref: "env:ANOTHER" }, namespace };
    const refused = await plugins
      .setPluginProfile({ name: plugin, profile: { nodeHealthSecret: elsewhere } })
      .catch((error: unknown) => error);
    expect(String(refused)).toContain("profile.node_health_secret.secret.ref");
    await expectNowhere([set, told, String(refused), await plugins.getPlugin({ name: plugin })], plugin);
  });
});
