import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type {
  AgentServiceDefinition,
  DeepPartial,
  InventoryResponse,
  Permit,
  PublishResponse,
  ReleaseResponse,
} from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import { AccessMode, AttachmentMode } from "@holdfast/shared/gen/holdfast/v1/common";
import type { GrpcClient } from "@holdfast/shared/grpc/client";
import type { BackendSettings } from "@holdfast/sim-plugin/backend/settings";
import { createSimPlugin, type HostOptions, type SimPlugin } from "@holdfast/sim-plugin/sim-plugin";
import { onTestFinished } from "vitest";
import { childEnvironment } from "../../../../test/support/child-environment.ts";
import { type FakeController, startFakeController } from "./fake-controller.ts";
import { machineIdFile } from "./machine-id-file.ts";

export const isRoot = process.getuid?.() === 0;
if (!isRoot) process.stderr.write("SKIPPED: real mounts need root\n");
export const pluginName = "sim.holdfast.dev";
const repository = path.resolve(import.meta.dirname, "../../../..");

/** An agent process, the simulated plugin and a controller's half of the link, on one host with real mounts. */
export interface AgentRig {
  readonly dir: string;
  readonly rootDir: string;
  readonly stateDir: string;
  readonly controller: FakeController;
  readonly plugin: SimPlugin;
  readonly agent: GrpcClient<typeof AgentServiceDefinition>;
  /** Starts the agent (again); rejects when it ends before it is ready. */
  start(env?: Readonly<Record<string, string>>): Promise<void>;
  /** Of the process that was started last. */
  exited(): Promise<number | string>;
  signal(signal: NodeJS.Signals): void;
  output(): string;
  publish(claim: RigClaim): Promise<PublishResponse>;
  release(claim: RigClaim): Promise<ReleaseResponse>;
  inventory(): Promise<InventoryResponse[]>;
  /** The order again and again until the agent says what has become of it. */
  publishUntilSettled(claim: RigClaim): Promise<PublishResponse>;
  releaseUntilSettled(claim: RigClaim): Promise<ReleaseResponse>;
  mountsBelowRoot(): readonly string[];
}

export interface RigClaim {
  readonly uid: string;
  readonly ctr: number;
  readonly volume?: string;
  readonly oldestLive?: number;
  readonly accessMode?: AccessMode;
  readonly block?: boolean;
  readonly readOnly?: boolean;
  readonly changes?: DeepPartial<Permit>;
}

export interface RigOptions {
  readonly backend?: BackendSettings;
  readonly host?: HostOptions;
}

export async function startRig({ backend = {}, host = {} }: RigOptions = {}): Promise<AgentRig> {
  const dir = await mkdtemp(path.join(tmpdir(), "hfa-"));
  const [rootDir, stateDir, pluginDir] = [path.join(dir, "m"), path.join(dir, "state"), path.join(dir, "p")];
  await mkdir(pluginDir, { mode: 0o700 });
  onTestFinished(async () => {
    for (const at of mountsBelow(dir).reverse()) spawnSync("umount", ["-l", at]);
    await rm(dir, { recursive: true, force: true });
  });
  const plugin = await createSimPlugin({
    role: "node",
    node: "node-a",
    socket: path.join(pluginDir, "sim.sock"),
    capabilities: { without: ["controller.PUBLISH_UNPUBLISH_VOLUME"] },
    dataDir: path.join(dir, "data"),
    realMounts: isRoot,
    ...host,
    ...backend,
  });
  onTestFinished(() => plugin.close());
  plugin.backend.addVolume({ id: "vol-1", capacity: 16n * 1024n * 1024n });
  const controller = await startFakeController();
  let child: ChildProcess | undefined;
  let output = "";
  let exited: Promise<number | string> = Promise.resolve(0);
  // Each of them: one that was refused may have been started beside one that lives on.
  const ended: (() => Promise<unknown>)[] = [];
  onTestFinished(async () => {
    await Promise.all(ended.map((end) => end()));
  });

  const rig: AgentRig = {
    dir,
    rootDir,
    stateDir,
    controller,
    plugin,
    /** Over the stream of the process that registered last. */
    get agent() {
      return controller.orders();
    },
    async start(env = {}) {
      const started = spawn(process.execPath, [path.join(repository, "services/node-agent/src/main.ts")], {
        env: {
          ...childEnvironment(),
          HOLDFAST_NODE: "node-a",
          HOLDFAST_LOCAL_LISTEN: `unix://${path.join(dir, "l.sock")}`,
          HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
          HOLDFAST_CONTROLLERS: controller.address,
          HOLDFAST_STATE_DIR: stateDir,
          HOLDFAST_MACHINE_ID_FILE: machineIdFile(),
          HOLDFAST_HOST_IDENTITY: "none",
          HOLDFAST_ROOT_DIR: rootDir,
          HOLDFAST_PLUGIN_DIR: pluginDir,
          HOLDFAST_HOSTED_PLUGIN_DIR: path.join(dir, "h"),
          HOLDFAST_LOG_LEVEL: "debug",
          ...env,
        },
        stdio: ["ignore", "pipe", "pipe"],
      });
      child = started;
      output = "";
      const end = once(started, "exit").then(([code, signal]) => (signal ?? code) as number | string);
      exited = end;
      ended.push(() => {
        started.kill("SIGKILL");
        return end;
      });
      await new Promise<void>((resolve, reject) => {
        const take = (chunk: Buffer): void => {
          output += chunk.toString("utf8");
          if (output.includes('"message":"ready"')) resolve();
        };
        started.stdout?.on("data", take);
        started.stderr?.on("data", take);
        void exited.then((how) => reject(new Error(`the agent ended with ${how} before it was ready:\n${output}`)));
      });
    },
    exited: () => exited,
    signal: (signal) => void child?.kill(signal),
    output: () => output,
    publish: (claim) => rig.agent.publish({ permit: permitMessage(claim, controller.nodeEpoch()) }),
    release: (claim) => rig.agent.release(releaseMessage(claim, controller.nodeEpoch())),
    async inventory() {
      const chunks: InventoryResponse[] = [];
      for await (const chunk of rig.agent.inventory({})) chunks.push(chunk);
      return chunks;
    },
    publishUntilSettled: (claim) =>
      untilSettled(async () => {
        const answer = await rig.publish(claim);
        if (answer.uncertain !== undefined) throw new Error(`uncertain: ${answer.uncertain.message}`);
        return answer;
      }),
    releaseUntilSettled: (claim) =>
      untilSettled(async () => {
        const answer = await rig.release(claim);
        if (answer.pending !== undefined) throw new Error(`pending: ${answer.pending.message}`);
        return answer;
      }),
    mountsBelowRoot: () => mountsBelow(rootDir),
  };
  return rig;
}

function permitMessage(claim: RigClaim, nodeEpoch: number): DeepPartial<Permit> {
  const { volume = "vol-1", accessMode = AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER, block = false, ctr } = claim;
  return {
    ...subjectOf(claim, volume),
    workload: `w-${claim.uid}`,
    alias: "data",
    nodeEpoch: BigInt(nodeEpoch),
    epoch: { gen: 1n, ctr: BigInt(ctr) },
    oldestLiveEpoch: { gen: 1n, ctr: BigInt(claim.oldestLive ?? ctr) },
    accessMode,
    attachmentMode: block ? AttachmentMode.ATTACHMENT_MODE_BLOCK_DEVICE : AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
    readOnly: claim.readOnly ?? false,
    ...claim.changes,
  };
}

function releaseMessage(claim: RigClaim, nodeEpoch: number) {
  return {
    ...subjectOf(claim, claim.volume ?? "vol-1"),
    nodeEpoch: BigInt(nodeEpoch),
    epoch: { gen: 1n, ctr: BigInt(claim.ctr) },
  };
}

const subjectOf = (claim: RigClaim, volume: string) => ({
  namespace: "ns",
  volume,
  volumeUid: `uid-${volume}`,
  externalId: volume,
  plugin: pluginName,
  claimUid: claim.uid,
  node: "node-a",
});

async function untilSettled<T>(ask: () => Promise<T>): Promise<T> {
  let last: unknown;
  for (let attempt = 0; attempt < 200; attempt += 1) {
    try {
      return await ask();
    } catch (error) {
      last = error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  throw new Error("it did not settle", { cause: last });
}

function mountsBelow(dir: string): string[] {
  const table = spawnSync("cat", ["/proc/self/mountinfo"], { encoding: "utf8" }).stdout;
  return table
    .split("\n")
    .map((line) => line.split(" ")[4] ?? "")
    .filter((at) => at.startsWith(`${dir}/`));
}

/** All that is on disk for the journal, as text. */
export const journalText = (rig: Pick<AgentRig, "stateDir">): Promise<string> =>
  readFile(path.join(rig.stateDir, "journal"), "utf8");
