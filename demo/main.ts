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

const untilInterrupted = (): Promise<void> =>
  new Promise((resolve) => {
    const idle = setInterval(() => undefined, 60_000);
    const end = (): void => {
      clearInterval(idle);
      resolve();
    };
    process.once("SIGINT", end);
    process.once("SIGTERM", end);
  });

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
    await walk(cluster, traces, say);
    if (values.keep) await keepRunning(cluster);
  } catch (error) {
    failed = true;
    console.error(`\nThe demo failed: ${error instanceof Error ? error.message : String(error)}`);
    if (cluster !== undefined) console.error(`\nWhat the processes said:\n${cluster.output()}`);
  } finally {
    // Before stop(), which would clean up after a failure.
    const left = cluster === undefined ? [] : await newOnHost(before, cluster.dir);
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
