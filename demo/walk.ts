import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { type Claim, ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { AccessMode, AttachmentMode } from "@holdfast/shared/gen/holdfast/v1/common";
import { type Volume, VolumeState } from "@holdfast/shared/gen/holdfast/v1/volume";
import type { Cluster } from "../test/harness/cluster.ts";
import type { OtlpReceiver } from "../test/harness/otlp-receiver.ts";
import { traceTree } from "../test/harness/trace-tree.ts";

export const plugin = "local.holdfast.dev";

const where = { namespace: "demo" };
const wait = { waitFor: { seconds: 30n, nanos: 0 } };
const capability = {
  attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
  accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER,
};

const only = <T>(list: readonly T[], what: string): T => {
  const [first, second] = list;
  if (first === undefined || second !== undefined) throw new Error(`expected one ${what}, got ${list.length}`);
  return first;
};

const must = <T>(value: T | undefined, what: string): T => {
  if (value === undefined) throw new Error(`the answer has no ${what}`);
  return value;
};

const expectState = (
  names: Readonly<Record<string, number | string>>,
  wanted: number,
  record: Pick<Volume | Claim, "state" | "lastError">,
): void => {
  if (record.state === wanted) return;
  const name = (state: number): string => Object.keys(names).find((key) => names[key] === state) ?? String(state);
  throw new Error(`expected ${name(wanted)}, found ${name(record.state)}: ${record.lastError?.message ?? ""}`);
};

/** The line of the mount table that a workload's path has, for people. */
const mountedAs = async (mountPoint: string): Promise<string> => {
  const table = await readFile("/proc/self/mountinfo", "utf8");
  const line = table.split("\n").find((one) => one.split(" ")[4] === mountPoint);
  if (line === undefined) throw new Error(`nothing is mounted at ${mountPoint}`);
  const [type, source] = (line.split(" - ")[1] ?? "").split(" ");
  return `(the mount table: ${type} on ${source})`;
};

/** The steps of the demo, each printed as it is done. */
export const walk = async (cluster: Cluster, traces: OtlpReceiver, say: (text: string) => void): Promise<void> => {
  const { volumes, claims } = cluster;
  let step = 0;
  const done = (text: string): void => {
    step += 1;
    say(`  ${step}. ${text}`);
  };
  say("");

  const created = await volumes.createVolume({
    ...where,
    id: "data",
    plugin,
    capacity: { requiredBytes: 64n * 1024n * 1024n, limitBytes: 0n },
    capabilities: [capability],
    ...wait,
  });
  const volume = must(created.volume, "volume");
  expectState(VolumeState, VolumeState.VOLUME_STATE_AVAILABLE, volume);
  done(`created volume demo/data; the plugin calls it ${volume.externalId}`);

  const claimFor = async (workload: string): Promise<Claim> => {
    const asked = await claims.createClaims({
      ...where,
      workload,
      node: "node-a",
      claims: [{ volume: "data", alias: "data", capability }],
      ...wait,
    });
    const claim = only(asked.claims, "claim");
    expectState(ClaimState, ClaimState.CLAIM_STATE_ACTIVE, claim);
    return claim;
  };
  const releaseOf = async (workload: string): Promise<void> => {
    const released = await claims.releaseClaims({ ...where, workload, ...wait });
    expectState(ClaimState, ClaimState.CLAIM_STATE_RELEASED, only(released.claims, "claim"));
  };

  const claim = await claimFor("web-1");
  done(`claimed it for workload web-1 on node-a: attached, staged, published at ${claim.hostPath}`);
  say(`       ${await mountedAs(claim.hostPath)}`);

  const written = "written through the mount";
  await writeFile(path.join(claim.hostPath, "hello.txt"), `${written}\n`);
  done(`wrote ${path.join(claim.hostPath, "hello.txt")}`);

  const explained = await volumes.explainVolume({ ...where, id: "data" });
  done("asked why it is as it is:");
  for (const finding of explained.findings) say(`       ${finding}`);

  await releaseOf("web-1");
  done("released the claim: unpublished, unstaged, verified in the mount table, detached");

  const next = await claimFor("web-2");
  const found = (await readFile(path.join(next.hostPath, "hello.txt"), "utf8")).trim();
  if (found !== written) throw new Error(`the next workload reads ${JSON.stringify(found)}`);
  done(`claimed it for workload web-2, which reads: ${found}`);

  await releaseOf("web-2");
  done("released that claim too");

  await volumes.deleteVolume({ ...where, id: "data", ...wait });
  done("deleted the volume");

  const wanted = ["ClaimService/CreateClaims", "ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume"];
  const spans = await traces.until(
    (all) => wanted.every((name) => all.some((s) => s.traceId === claim.traceId && s.name.endsWith(name))),
    `${wanted.join(", ")} of the claim`,
  );
  say(`\nThe claim as one trace (${claim.traceId}), from the request to each call of the plugin:\n`);
  say(
    traceTree(spans, claim.traceId)
      .split("\n")
      .map((line) => `  ${line}`)
      .join("\n"),
  );
};
