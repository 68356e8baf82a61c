/**
 * `npm run demo`: the life of a volume on this machine, with real processes and real mounts: created, claimed, written to, cut, grown,
 * restored into a second one, both claimed as one set, compared, released and deleted. The storage behind it is the local driver: as
 * root a filesystem in a file behind a loop device, inside of a user namespace a directory. All of it is what runs in production.
 * With --tls the processes know each other by certificates instead (walk-trust.ts).
 */
import { parseArgs } from "node:util";
import { type Cluster, startCluster } from "../test/harness/cluster.ts";
import { startOtlpReceiver } from "../test/harness/otlp-receiver.ts";
import { keepRunning } from "./keep-running.ts";
import { leftByAll, leftByVolumes, lookAtHost } from "./look-at-host.ts";
import { showTrace } from "./show-trace.ts";
import { enterUserNamespace, inNamespace } from "./user-namespace.ts";
import { walk } from "./walk.ts";
import { walkTrust } from "./walk-trust.ts";

const { values } = parseArgs({
  options: { keep: { type: "boolean", default: false }, tls: { type: "boolean", default: false } },
});

if (process.getuid?.() !== 0) process.exit(await enterUserNamespace(process.argv.slice(1)));

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

if (values.tls) process.exit((await walkTrust(say)) ? 0 : 1);

const main = async (): Promise<number> => {
  say("Starting a controller (SQLite), an agent and a storage driver, each a process of its own …");
  if (inNamespace()) say("(not root: volumes are directories, mounted in a namespace that nobody else sees)");
  const traces = await startOtlpReceiver();
  const before = await lookAtHost();
  let failed = false;
  const expectNone = (left: readonly string[]): void => {
    if (left.length === 0) return;
    failed = true;
    console.error(`Left behind:\n${left.join("\n")}`);
  };
  let cluster: Cluster | undefined;
  try {
    cluster = await startCluster({
      nodes: ["node-a"],
      otlpEndpoint: traces.endpoint,
      localDriver: { HOLDFAST_LOCAL_ATTACH: "1" },
    });
    const traceId = await unlessInterrupted(walk(cluster, say));
    // Before stop(), which cleans up what a failure left.
    expectNone(await leftByVolumes(before, cluster.dir));
    await unlessInterrupted(showTrace(traces, traceId, 2, say));
    if (values.keep) {
      await keepRunning(cluster, say);
      await untilInterrupted();
    }
  } catch (error) {
    failed = true;
    console.error(`\nThe demo failed: ${error instanceof Error ? error.message : String(error)}`);
    if (cluster !== undefined && !(error instanceof Interrupted))
      console.error(`\nWhat the processes said:\n${cluster.output()}`);
  } finally {
    await cluster?.stop();
    await traces.close();
  }
  if (cluster !== undefined) expectNone(await leftByAll(before, cluster.dir));
  if (!failed) {
    say("\nCleaned up: no process, mount, loop device or file is left.");
    if (!values.keep)
      say(
        "Next: `npm run demo -- --keep` to give commands yourself; docs/scheduler-guide.md for a scheduler of your own.",
      );
  }
  return failed ? 1 : 0;
};

process.exit(await main());
