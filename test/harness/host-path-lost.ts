/**
 * csi-driver-host-path is killed in a call, and its record is damaged: half of it, or no byte, with which it does not start again, or a
 * record of nothing, with which it starts and knows no volume. What was mounted then is released and deleted all the same.
 */
import { ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { commandsIn, runAsTold } from "./as-told.ts";
import type { Left } from "./host-path-process.ts";
import { type HostPathNode, type HostPathWorld, hostPathPlugin } from "./host-path-world.ts";
import { blockWriter, claimVolume, fileWriter, mountsUnder, namespace, persistently, stateName } from "./scenario.ts";
import { until } from "./until.ts";

export interface LossFigures {
  /** The call that the driver was killed in. */
  readonly underWay: readonly string[];
  readonly started: boolean;
  /** What Explain said of each volume while the driver was away, or knew nothing. */
  readonly said: readonly string[];
  /** What was run because it was printed, and how it ended. */
  readonly cures: readonly string[];
  /** What is left in the end. */
  readonly left: readonly string[];
}

const soon = { seconds: 2n, nanos: 0 };
const waiting = { seconds: 30n, nanos: 0 };
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
/** A printed command is run after so long without an end. */
const patienceMs = 20_000;
const hopelessMs = 240_000;

export const loseRecord = async (
  world: HostPathWorld,
  {
    node,
    left,
    number,
  }: { readonly node: HostPathNode; readonly left: Exclude<Left, "as before">; readonly number: number },
): Promise<LossFigures> => {
  const { cluster } = world;
  const driver = world.driver(node);
  const ids = ["file", "block"].map((kind) => `${kind}-${number}`);
  const caughtWith = `caught-${number}`;
  // Claimed only when its driver knows it no more.
  const idle = `idle-${number}`;
  const cut = `cut-${number}`;
  const topology = { required: [{ segments: { "topology.hostpath.csi/node": node } }] };
  for (const id of [...ids, caughtWith, idle]) {
    await cluster.volumes.createVolume({
      ...{ namespace, id, plugin: hostPathPlugin, topology, waitFor: waiting, capacity: { requiredBytes: 16n << 20n } },
      capabilities: [id.startsWith("block") ? blockWriter : fileWriter],
    });
    if (id === idle) continue;
    const claim = await claimVolume(cluster, id, { node });
    if (claim.state !== ClaimState.CLAIM_STATE_ACTIVE) throw new Error(`${id} is ${stateName(claim)}`);
  }
  await cluster.snapshots.createSnapshot({
    namespace,
    id: cut,
    volume: ids[0] ?? "",
    waitFor: waiting,
    waitUntilReady: true,
  });

  await driver.arm();
  await cluster.claims.releaseClaims({ namespace, workload: `w-${caughtWith}` });
  await driver.catchIn(["NodeUnpublishVolume"], () => false);
  const underWay = driver.underWay();
  await driver.kill(left);
  const started = await driver.start();

  const all = [...ids, caughtWith, idle];
  const explain = async (id: string) => {
    const told = await cluster.volumes.explainVolume({ namespace, id }).catch(() => undefined);
    return { findings: told?.findings ?? [], advice: told?.nextActions ?? [] };
  };
  /** Whether all of them are gone. */
  const end = async (): Promise<boolean> => {
    const over: boolean[] = [];
    for (const id of all) {
      const { claims } = await cluster.claims.releaseClaims({ namespace, workload: `w-${id}`, waitFor: soon });
      over.push(claims.every((claim) => stateName(claim) === "RELEASED"));
    }
    const { snapshot } = await cluster.snapshots.deleteSnapshot({ namespace, id: cut, waitFor: soon });
    over.push(snapshot === undefined);
    for (const id of all) {
      const gone = await cluster.volumes.deleteVolume({ namespace, id, waitFor: soon }).then(
        ({ volume }) => volume === undefined,
        (error: { reason?: string }) => error.reason === "VOLUME_NOT_FOUND",
      );
      over.push(gone);
    }
    return over.every(Boolean);
  };
  const said: string[] = [];
  const cures: string[] = [];
  if (!started) {
    await end();
    await pause(5_000);
    for (const id of all) said.push(`${id}: ${(await explain(id)).findings.join(" ")}`);
    await driver.putBack();
    if (!(await driver.start())) throw new Error(`the driver does not start with the record that was put back`);
  }
  if (left === "nothing") {
    const told = await until(`${idle} to say why it is not mounted`, async () => {
      const asked = { namespace, workload: `w-${idle}`, node, claims: [{ volume: idle }], waitFor: soon };
      await persistently("an answer", () => cluster.claims.createClaims(asked));
      const { findings, advice } = await explain(idle);
      return commandsIn(advice).length > 0 ? { findings, advice } : undefined;
    });
    said.push(`${idle}: ${told.findings.join(" ")} > ${told.advice.join(" > ")}`);
    for (const line of commandsIn(told.advice)) cures.push(await runAsTold(cluster, line));
  }
  for (let [since, cured] = [performance.now(), performance.now()]; !(await persistently("an answer", end)); ) {
    if (performance.now() - since > hopelessMs) break;
    if (performance.now() - cured < patienceMs) continue;
    cured = performance.now();
    for (const id of all) {
      const { findings, advice } = await explain(id);
      if (findings.length > 0) said.push(`${id}: ${findings.join(" ")} > ${advice.join(" > ")}`);
      for (const line of commandsIn(advice)) cures.push(await runAsTold(cluster, line));
    }
  }
  const records = (await cluster.volumes.listVolumes({ filter: { namespace } })).volumes.filter(({ id }) =>
    all.includes(id),
  );
  const mounts = (await mountsUnder(cluster.node(node).rootDir)).map((line) => `mount ${line}`);
  const { Volumes, Snapshots } = await driver.state();
  return {
    underWay,
    started,
    said,
    cures,
    left: [
      ...records.map(({ id }) => `record of ${id}`),
      ...mounts,
      ...(Volumes ?? []).map(({ VolID }) => `volume ${VolID}`),
      ...(Snapshots ?? []).map(({ Id }) => `snapshot ${Id}`),
    ],
  };
};
