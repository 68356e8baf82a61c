/** A cluster in which every secret is a canary, and each way to refer to one is used. */
import { randomBytes } from "node:crypto";
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { snapshotSecretFamilies } from "@holdfast/controller/domain/snapshot/snapshot";
import { secretFamilies } from "@holdfast/controller/domain/volume/volume";
import { PluginServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { TrustServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/trust";
import { createGrpcChannel, createGrpcClient, type GrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { csi113 } from "@holdfast/sim-plugin/backend/capabilities";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import type { OtlpReceiver } from "../harness/otlp-receiver.ts";
import { namespace, plugin } from "../harness/scenario.ts";
import { until } from "../harness/until.ts";
import { startConnectProxy } from "../support/connect-proxy.ts";
import { type RedisServer, startRedisServer } from "../support/redis-server.ts";
import { tokenKeyLine } from "../support/token-keys.ts";
import { canaryOf, privateOf } from "./forms.ts";
import { carriedOver, type StoreName } from "./secret-fields.ts";

export interface SecretWorld {
  readonly store: StoreName;
  readonly cluster: Cluster;
  readonly redis: RedisServer | undefined;
  readonly traces: OtlpReceiver;
  readonly plugins: GrpcClient<typeof PluginServiceDefinition>;
  readonly trust: GrpcClient<typeof TrustServiceDefinition>;
  /** What a program that the agent starts was shown. */
  readonly childFile: string;
  /** Everything that was answered, errors too. */
  readonly answers: unknown[];
  /** The ids of its volumes: spans of both stores come to one collector. */
  readonly of: Readonly<Record<"kept" | "inline" | "again" | "refused", string>>;
  stop(): Promise<void>;
}

const valuesOf = (canary: string) => ({ token: canaryOf(canary) });
const kebab = (family: string): string => family.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`);

/** Read from the environment of the controller, all others from its store. */
const fromEnvironment: readonly string[] = ["controllerPublish", "nodeStage", "nodePublish"];
const variableOf = (canary: string): string => `CANARY_${canary.toUpperCase()}`;

export const volumeSecrets = Object.fromEntries(
  secretFamilies.map((family) => [
    family,
    { ref: fromEnvironment.includes(family) ? `env:${variableOf(family)}` : `secret:${kebab(family)}` },
  ]),
);
export const snapshotSecrets = Object.fromEntries(
  snapshotSecretFamilies.map((family) => [family, { ref: `file:cut/snapshot-${family}.json` }]),
);
export const healthSecret = { secret: { ref: `env:${variableOf("nodeHealth")}` }, namespace };
/** Of one that is stored. */
export const arrayName = kebab("modify");
export const inlineSecrets = valuesOf("create");

/** Also before a volume or a profile names a secret for it. */
const asked: readonly string[] = ["ControllerListVolumeHealth", "NodeGetStorageHealth"];

const healthByQuestion = {
  with: csi113.with.filter((name) => name !== "controller.LIST_VOLUME_HEALTH"),
  without: [...csi113.without, "controller.LIST_VOLUME_HEALTH"],
} as const;

const writeSecrets = async (dir: string) => {
  await mkdir(path.join(dir, "cut"), { mode: 0o700 });
  for (const family of snapshotSecretFamilies) {
    const file = path.join(dir, "cut", `snapshot-${family}.json`);
    await writeFile(file, JSON.stringify(valuesOf(`snapshot-${family}`)), { mode: 0o600 });
  }
  // A key is a secret too: this one begins like every canary.
  const key = Buffer.concat([Buffer.from(canaryOf("")), randomBytes(32)]).subarray(0, 32);
  await writeFile(path.join(dir, "keys"), `first ${key.toString("base64")}\n`, { mode: 0o600 });
  await writeFile(path.join(dir, "tokens"), `${tokenKeyLine("first")}\n`, { mode: 0o600 });
};

/** Writes down what it is shown of the agent, and says what host this is. */
const writeChild = async (dir: string): Promise<string> => {
  const program = path.join(dir, "host-identity");
  await writeFile(program, `#!/bin/sh\nenv >>${dir}/child\necho "argv $0 $*" >>${dir}/child\necho one-host\n`);
  await chmod(program, 0o755);
  return program;
};

export const startSecretWorld = async (store: StoreName, traces: OtlpReceiver): Promise<SecretWorld> => {
  const end = store.toLowerCase();
  const dir = await mkdtemp(path.join(tmpdir(), "hf-canary-"));
  await writeSecrets(dir);
  const redis = store === "Redis" ? await startRedisServer() : undefined;
  await (await redis?.admin())?.config("SET", "requirepass", canaryOf("store"));
  const proxyLogin = canaryOf("proxy");
  const proxy = await startConnectProxy({
    leadsTo: (target) => ({ port: Number(target.split(":").pop()) }),
    login: `agent:${proxyLogin}`,
  });
  const variables = [...fromEnvironment, "nodeHealth"].map(
    (canary) => [variableOf(canary), JSON.stringify(valuesOf(canary))] as const,
  );
  const cluster = await startCluster({
    nodes: ["node-a"],
    ...(redis === undefined
      ? {}
      : {
          store: redis.url.replace("//", `//:${encodeURIComponent(canaryOf("store"))}@`),
          controllerHalvesOn: ["node-a"],
        }),
    realMounts: true,
    rightsOfUnits: true,
    otlpEndpoint: traces.endpoint,
    logLevel: "debug",
    controllerEnv: {
      ...Object.fromEntries(variables),
      HOLDFAST_SECRET_ENV: "CANARY_@*",
      HOLDFAST_SECRET_FILES: `cut=${path.join(dir, "cut")}@*`,
      HOLDFAST_SECRET_KEYS: path.join(dir, "keys"),
      HOLDFAST_TOKEN_KEYS: path.join(dir, "tokens"),
      HOLDFAST_TOKEN_ISSUER: "https://tokens.example.com",
      HOLDFAST_CONDITION_INTERVAL: "500ms",
    },
    agentEnv: {
      CANARY_OF_THE_AGENT: canaryOf("agent's environment"),
      HOLDFAST_PROXY: `http://agent:${encodeURIComponent(proxyLogin)}@127.0.0.1:${proxy.port}`,
      HOLDFAST_STATS_MAX_AGE: "1s",
      HOLDFAST_HOST_IDENTITY: `exec:${await writeChild(dir)}`,
    },
    backend: {
      capabilities: store === "Redis" ? healthByQuestion : csi113,
      secrets: Object.fromEntries(
        carriedOver(store).flatMap(([method, canary]) => (asked.includes(method) ? [] : [[method, valuesOf(canary)]])),
      ),
      volumeContext: { context: privateOf("volume-context") },
    },
  });
  const channel = createGrpcChannel(cluster.address);
  const client = { log: createMemoryLogger(), identity: { role: "operator", name: "o1" } as const };
  const plugins = createGrpcClient(PluginServiceDefinition, channel, client);
  const trust = createGrpcClient(TrustServiceDefinition, channel, client);
  if (redis !== undefined) {
    await cluster.node("node-a").startControllerHalf();
    await until("the half on the node to be known", async () => {
      const { plugin: seen } = await plugins.getPlugin({ name: plugin });
      return seen?.instances.some(({ node, fingerprint }) => node === "node-a" && fingerprint?.role === 1);
    });
  }
  const stored = [...secretFamilies].filter((family) => !fromEnvironment.includes(family));
  for (const family of stored)
    await cluster.secrets.putSecret({ namespace, name: kebab(family), values: valuesOf(family) });
  return {
    ...{ store, cluster, redis, traces, plugins, trust },
    childFile: path.join(dir, "child"),
    answers: [],
    of: { kept: `kept-${end}`, inline: `inline-${end}`, again: `again-${end}`, refused: `refused-${end}` },
    stop: async () => {
      channel.close();
      await cluster.stop();
      await proxy.close();
      await redis?.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
};
