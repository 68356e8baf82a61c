/**
 * `npm run demo`: the whole path on this machine, with real processes and a real mount: one volume is created, claimed, mounted, written
 * to, explained, released, claimed again, released and deleted. The storage behind it is the local driver: as root a filesystem in a
 * file behind a loop device, inside of a user namespace a directory. All of it is what runs in production.
 */
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { parseArgs } from "node:util";
import { type Cluster, startCluster } from "../test/harness/cluster.ts";
import { startOtlpReceiver } from "../test/harness/otlp-receiver.ts";
import { lookAtHost, newOnHost } from "./look-at-host.ts";
import { enterUserNamespace } from "./user-namespace.ts";
import { plugin, walk } from "./walk.ts";

const { values } = parseArgs({ options: { keep: { type: "boolean", default: false } } });

if (process.getuid?.() !== 0) process.exit(enterUserNamespace(process.argv.slice(1)));

const say = (text: string): void => console.log(text);

/** Resolves with the first Ctrl-C (or SIGTERM), whatever is being done: what was started is then stopped in order. */
const interrupted = new Promise<void>((resolve) => {
  process.once("SIGINT", () => resolve());
  process.once("SIGTERM", () => resolve());
});

const untilInterrupted = async (): Promise<void> => {
  const idle = setInterval(() => undefined, 60_000);
  await interrupted;
  clearInterval(idle);
};

/** Gives up waiting for it when interrupted; nothing of it is undone by that. */
const unlessInterrupted = <T>(act: Promise<T>): Promise<T> =>
  Promise.race([
    act,
    interrupted.then(() => {
      throw new Interrupted("it was interrupted");
    }),
  ]);

class Interrupted extends Error {}

const keepRunning = async (cluster: Cluster): Promise<void> => {
  const clients = path.join(cluster.dir, "how-to-call-it.txt");
  const hint = [
    `The controller listens on ${cluster.address} (gRPC, reflection on):`,
    `  grpcurl -plaintext ${cluster.address} list`,
    `  grpcurl -plaintext -d '{"namespace":"demo"}' ${cluster.address} holdfast.v1.VolumeService/ListVolumes`,
    `  grpcurl -plaintext -d '{"namespace":"demo","id":"mine","plugin":"${plugin}","capacity":{"required_bytes":67108864},"capabilities":[{"attachment_mode":"ATTACHMENT_MODE_FILE_SYSTEM","access_mode":"ACCESS_MODE_SINGLE_NODE_WRITER"}],"wait_for":"10s"}' ${cluster.address} holdfast.v1.VolumeService/CreateVolume`,
    `Everything lives in ${cluster.dir}. Ctrl-C ends it and cleans up.`,
  ].join("\n");
  await writeFile(clients, `${hint}\n`);
  say(`\n${hint}`);
  await untilInterrupted();
};

const main = async (): Promise<number> => {
  say("Starting a controller (SQLite), an agent and a storage plugin, each a process of its own …");
  const traces = await startOtlpReceiver();
  const before = await lookAtHost();
  let cluster: Cluster | undefined;
  let failed = false;
  try {
    cluster = await startCluster({
      nodes: ["node-a"],
      otlpEndpoint: traces.endpoint,
      localDriver: { HOLDFAST_LOCAL_ATTACH: "1" },
    });
    await unlessInterrupted(walk(cluster, traces, say));
    if (values.keep) await keepRunning(cluster);
  } catch (error) {
    failed = true;
    console.error(`\nThe demo failed: ${error instanceof Error ? error.message : String(error)}`);
    if (cluster !== undefined && !(error instanceof Interrupted))
      console.error(`\nWhat the processes said:\n${cluster.output()}`);
  } finally {
    // Before stop(), which cleans up what a failure left.
    const left = failed || cluster === undefined ? [] : await newOnHost(before, cluster.dir);
    if (left.length > 0) {
      failed = true;
      console.error(`Left behind:\n${left.join("\n")}`);
    }
    await cluster?.stop();
    await traces.close();
  }
  if (!failed) say("\nCleaned up: no process, mount, loop device or file is left.");
  return failed ? 1 : 0;
};

process.exit(await main());
