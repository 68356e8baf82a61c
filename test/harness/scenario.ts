import { readFile } from "node:fs/promises";
import type { DeepPartial } from "@holdfast/shared/gen/holdfast/v1/claim";
import { type Claim, ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { AccessMode, AttachmentMode, type VolumeCapability } from "@holdfast/shared/gen/holdfast/v1/common";
import { type Volume, VolumeState } from "@holdfast/shared/gen/holdfast/v1/volume";
import { expect } from "vitest";
import type { Cluster } from "./cluster.ts";
import { until } from "./until.ts";

export const namespace = "test";
export const plugin = "sim.holdfast.dev";
const waiting = { seconds: 45n, nanos: 0 };

export const fileWriter: DeepPartial<VolumeCapability> = {
  attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
  accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER,
};

export const blockWriter: DeepPartial<VolumeCapability> = {
  attachmentMode: AttachmentMode.ATTACHMENT_MODE_BLOCK_DEVICE,
  accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER,
};

const named = (names: Readonly<Record<string, number | string>>, value: number): string =>
  Object.keys(names).find((key) => names[key] === value) ?? String(value);

export const stateName = (claim: Pick<Claim, "state">): string =>
  named(ClaimState, claim.state).replace("CLAIM_STATE_", "");

export const volumeStateName = (volume: Pick<Volume, "state">): string =>
  named(VolumeState, volume.state).replace("VOLUME_STATE_", "");

const one = <T>(list: readonly T[]): T => {
  const [first] = list;
  if (first === undefined) throw new Error("an empty answer");
  return first;
};

export const makeVolume = async (
  cluster: Cluster,
  id: string,
  capability: DeepPartial<VolumeCapability> = fileWriter,
  of: { readonly plugin?: string; readonly bytes?: bigint; readonly parameters?: Record<string, string> } = {},
): Promise<Volume> => {
  const { volume } = await cluster.volumes.createVolume({
    namespace,
    id,
    plugin: of.plugin ?? plugin,
    parameters: of.parameters ?? {},
    capacity: { requiredBytes: of.bytes ?? 16n << 20n },
    capabilities: [capability],
    waitFor: waiting,
  });
  if (volume === undefined) throw new Error("CreateVolume answered without a volume");
  return volume;
};

/** Asks for one volume and waits until it is mounted or cannot be. */
export const claimVolume = async (
  cluster: Cluster,
  id: string,
  options: { readonly node?: string; readonly workload?: string; readonly readOnly?: boolean } = {},
): Promise<Claim> => {
  const { claims } = await cluster.claims.createClaims({
    namespace,
    workload: options.workload ?? `w-${id}`,
    node: options.node ?? "node-a",
    claims: [{ volume: id, readOnly: options.readOnly ?? false }],
    waitFor: waiting,
  });
  return one(claims);
};

export const releaseWorkload = async (cluster: Cluster, workload: string): Promise<readonly Claim[]> =>
  (await cluster.claims.releaseClaims({ namespace, workload, waitFor: waiting })).claims;

const grownBytes = 32n << 20n;

/** To twice the size that `makeVolume` asks for. */
export const growVolume = async (cluster: Cluster, id: string, bytes = grownBytes): Promise<Volume | undefined> =>
  (await cluster.volumes.expandVolume({ namespace, id, capacity: { requiredBytes: bytes }, waitFor: waiting })).volume;

/** At the backend, and on every node that has it. */
export const isGrown = (volume: Volume | undefined, bytes = grownBytes): boolean =>
  volume?.expansion === undefined && (volume?.capacity?.actualBytes ?? 0n) >= bytes;

export const modifyVolume = async (
  cluster: Cluster,
  id: string,
  mutableParameters: Record<string, string> = { tier: "gold" },
): Promise<Volume | undefined> =>
  (await cluster.volumes.modifyVolume({ namespace, id, mutableParameters, waitFor: waiting })).volume;

export const isModified = (volume: Volume | undefined, wanted: Record<string, string> = { tier: "gold" }): boolean =>
  volume?.modification === undefined &&
  Object.entries(wanted).every(([key, value]) => volume?.mutableParameters[key] === value);

export const removeVolume = (cluster: Cluster, id: string): Promise<unknown> =>
  cluster.volumes.deleteVolume({ namespace, id, waitFor: waiting });

/** What a service that is restarted meanwhile makes of a call: the same call again until it is answered. */
export const persistently = async <T>(what: string, call: () => Promise<T>): Promise<T> => {
  let last: unknown;
  return until(
    what,
    async () => {
      try {
        return { answer: await call() };
      } catch (error) {
        last = error;
        return undefined;
      }
    },
    60_000,
  ).then(
    ({ answer }) => answer,
    (error: unknown) => {
      throw new Error(`${String(error)}; the last answer was: ${String(last)}`);
    },
  );
};

export const mountsUnder = async (dir: string): Promise<readonly string[]> =>
  (await readFile("/proc/self/mountinfo", "utf8")).split("\n").filter((line) => line.includes(` ${dir}/`));

/** The plugin's own book: no call out of order, and nothing staged, published or attached any more. */
export const expectClean = async (cluster: Cluster, options: { readonly volumesLeft?: number } = {}): Promise<void> => {
  const { state, violations } = await cluster.backend.client.snapshot();
  expect(violations).toEqual([]);
  expect([...state.publications.keys()], "publications").toEqual([]);
  expect([...state.stages.keys()], "stages").toEqual([]);
  expect([...state.attachments.keys()], "attachments").toEqual([]);
  expect(state.volumes.size, "volumes at the backend").toBe(options.volumesLeft ?? 0);
  expect(await mountsUnder(cluster.dir), "mounts").toEqual([]);
};

/** The reason of the error that the call ended with; "done" when it ended with none. */
export const reasonOf = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => "done",
    (error: { reason?: string }) => error.reason,
  );
