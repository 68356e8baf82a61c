import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type Claim, ClaimServiceDefinition, ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { AccessMode, AttachmentMode } from "@holdfast/shared/gen/holdfast/v1/common";
import { VolumeState } from "@holdfast/shared/gen/holdfast/v1/volume";
import { createGrpcChannel } from "@holdfast/shared/grpc/client";
import { withIdentity } from "@holdfast/shared/grpc/identity";
import { createChannel, createClient } from "nice-grpc";
import { type Cluster, startCluster } from "../test/harness/cluster.ts";
import type { ManagedProcess } from "../test/harness/managed-process.ts";
import type { BenchCertificates } from "./support/bench-certificates.ts";
import { readCallTimes } from "./support/call-times.ts";
import { run } from "./support/load.ts";
import { mountsBelow } from "./support/mount-root.ts";
import { pluginSettings } from "./support/plugin-settings.ts";
import type { MeasuredSubject } from "./support/subject.ts";

export const namespace = "bench";

const plugin = "sim.holdfast.dev";
const scheduler = "bench";

export const patience = { seconds: 60n, nanos: 0 };

export interface ProductOptions {
  readonly store: string;
  readonly volumes: number;
  readonly nodes: number;
  readonly otlpEndpoint?: string;
  /** Everything by TLS, with these; they are those of one node. */
  readonly certificates?: BenchCertificates;
  readonly agentEnv?: Readonly<Record<string, string>>;
  /** Where the services leave CPU profiles of themselves when they end. */
  readonly profileDir?: string;
}

export interface Product extends MeasuredSubject {
  readonly cluster: Cluster;
  /** Where the agents' /metrics are. */
  readonly agentAdmins: readonly string[];
}

export const volumeName = (index: number): string => `v${index}`;

const adminOf = async (service: ManagedProcess): Promise<string> =>
  String((await service.line((line) => line["message"] === "admin listening", "its admin address"))["address"]);

const settled = (claims: readonly Claim[], wanted: ClaimState): void => {
  for (const claim of claims) {
    if (claim.state === wanted) continue;
    const { state, waitingFor, lastError, blocked } = claim;
    throw new Error(`a claim ended in state ${state}: ${JSON.stringify({ waitingFor, lastError, blocked })}`);
  }
};

export const createVolume = async ({ volumes }: Pick<Cluster, "volumes">, id: string): Promise<string> => {
  const { volume } = await volumes.createVolume({
    namespace,
    id,
    plugin,
    capacity: { requiredBytes: 16n << 20n },
    capabilities: [
      {
        attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
        accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER,
        // As the node wants every mount; the plugin heeds them, so that nobody has to mount again.
        mountFlags: ["nosuid", "nodev"],
      },
    ],
    waitFor: patience,
  });
  if (volume?.state === VolumeState.VOLUME_STATE_AVAILABLE) return volume.externalId;
  throw new Error(`volume ${id} ended in state ${volume?.state}: ${JSON.stringify(volume?.lastError)}`);
};

/** The services as in production, with the simulated plugin, which mounts for real and takes no time but its own. */
export const startProduct = async ({
  volumes,
  nodes: count,
  profileDir,
  certificates,
  ...options
}: ProductOptions): Promise<Product> => {
  const dir = await mkdtemp(path.join(tmpdir(), "hfb-"));
  const root = await mountsBelow();
  const times = path.join(dir, "times");
  await mkdir(times);
  // The plugins inherit these; the services get an environment of their own.
  const settings = pluginSettings(times);
  Object.assign(process.env, settings);
  const env = profileDir === undefined ? {} : { NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${path.resolve(profileDir)}` };
  const tls = (tlsDir: string | undefined) => (tlsDir === undefined ? {} : { HOLDFAST_TLS_DIR: tlsDir });
  const set = {
    controllerEnv: { ...env, ...tls(certificates?.controllerDir) },
    agentEnv: { ...env, ...tls(certificates?.agentDir), ...options.agentEnv },
    ...(certificates === undefined ? {} : { operatorCredentials: certificates.operator }),
  };
  const nodes = Array.from({ length: count }, (_, index) => `node-${index}`);
  const nodeOf = (index: number): string => nodes[index % count] ?? "";
  const cluster = await startCluster({ ...options, ...set, dir, mountsDir: root.dir, nodes, realMounts: true });

  const external = new Map<number, string>();
  const indexes = Array.from({ length: volumes }, (_, index) => index);
  await run(indexes, 16, async (index) => void external.set(index, await createVolume(cluster, volumeName(index))));

  if (certificates !== undefined)
    await cluster.grants.setGrant({ scheduler, namespaces: [namespace], plugins: [plugin], reason: "the bench" });
  // The one of the product's clients knows how an address is dialled by TLS.
  const channel =
    certificates === undefined
      ? createChannel(cluster.address)
      : createGrpcChannel(cluster.address, { credentials: certificates.scheduler });
  const client = createClient(ClaimServiceDefinition, channel, {
    "*": { metadata: withIdentity(undefined, { role: "scheduler", name: scheduler }) },
  });
  const agents = nodes.map((name) => cluster.node(name).agent());
  return {
    name: "holdfast",
    cluster,
    claim: async (index) => {
      const volume = volumeName(index);
      const claims = [{ volume }];
      const request = { namespace, workload: `w-${volume}`, node: nodeOf(index), claims, waitFor: patience };
      settled((await client.createClaims(request)).claims, ClaimState.CLAIM_STATE_ACTIVE);
    },
    release: async (index) => {
      const request = { namespace, workload: `w-${volumeName(index)}`, waitFor: patience };
      settled((await client.releaseClaims(request)).claims, ClaimState.CLAIM_STATE_RELEASED);
    },
    externalId: (index) => external.get(index) ?? "",
    callTimes: () => readCallTimes(times),
    agentAdmins: await Promise.all(agents.map(adminOf)),
    pids: {
      controller: [cluster.controller().pid],
      agent: agents.map(({ pid }) => pid),
      "controller plugin": [cluster.controllerPlugin().pid],
      "node plugin": nodes.map((name) => cluster.node(name).plugin().pid),
      backend: [cluster.backend.pid],
    },
    stop: async () => {
      channel.close();
      await cluster.stop();
      await root.remove();
      await rm(dir, { recursive: true, force: true });
      for (const name of Object.keys(settings)) delete process.env[name];
    },
  };
};
