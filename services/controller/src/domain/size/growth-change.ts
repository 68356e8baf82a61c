/**
 * What agents' answers do to the growth that nodes owe. One node's trouble is its own: neither the size that the backend has nor
 * what other nodes did is taken back for it.
 */
import { blockedFor } from "../blocked.ts";
import { blockedBy } from "../blocked-by.ts";
import { type Change, noChange, volumeNote } from "../change.ts";
import { tellingShortDevices, wantedOn, withDeviceSize } from "../claim/device-size.ts";
import type { Moment } from "../moment.ts";
import { endingOf, type Failure, noAttempts } from "../outcome.ts";
import { failedAttempt } from "../retry.ts";
import type { VolumeRecord } from "../volume/volume.ts";
import { type Growth, isPending, type NodeGrowth } from "./expansion.ts";
import { isGrownEverywhere, mustNotRepeat } from "./growth.ts";

/** What became of NodeExpandVolume on one node. */
export type GrowAnswer =
  | {
      readonly kind: "grown";
      /** 0: the plugin does not say. */
      readonly capacity: number;
      /** Of the block device, after the call; absent: it is none, or the agent does not say. */
      readonly deviceBytes?: number;
    }
  /** The volume is not published there; its next permit brings the growth along. */
  | { readonly kind: "not-here"; readonly failure: Failure }
  | { readonly kind: "refused"; readonly failure: Failure }
  | { readonly kind: "unknown"; readonly failure: Failure };

const told = (volume: VolumeRecord, at: Moment): Change => {
  const after = { ...volume, updatedAt: at.now };
  return { volume: after, ended: [], notes: [volumeNote(after)] };
};

const withoutGrowth = (volume: VolumeRecord): VolumeRecord => {
  const { growth: _g, ...rest } = volume;
  return rest;
};

/** Only nodes that still have the volume are remembered. */
const withNode = (volume: VolumeRecord, growth: Growth, node: string, next: NodeGrowth): VolumeRecord => {
  const kept = Object.entries(growth.nodes).filter(([name]) => volume.attachments[name] !== undefined);
  return { ...volume, growth: { ...growth, nodes: { ...Object.fromEntries(kept), [node]: next } } };
};

const fresh: NodeGrowth = { attempts: noAttempts };

/** The size that nodes alone have made. */
const sizedByNodes = (volume: VolumeRecord, growth: Growth, answered: number): VolumeRecord["capacity"] => ({
  required: Math.max(volume.capacity.required, growth.bytes),
  limit: growth.limit,
  actual: Math.max(volume.capacity.actual, answered === 0 ? growth.bytes : answered),
});

type Grown = Extract<GrowAnswer, { kind: "grown" }>;

const grown = (
  volume: VolumeRecord,
  growth: Growth,
  node: string,
  { capacity, deviceBytes: bytes }: Grown,
  at: Moment,
): Change => {
  const { [node]: _over, ...nodes } = growth.nodes;
  const done = [...growth.done.filter((name) => name !== node), node];
  const wanted = wantedOn(volume, node, true);
  const measured =
    bytes === undefined || wanted === undefined ? volume : withDeviceSize(volume, node, { bytes, wanted });
  const after: VolumeRecord = {
    ...measured,
    growth: { ...growth, done, nodes },
    ...(growth.byNodes ? { capacity: sizedByNodes(volume, growth, capacity) } : {}),
  };
  return tellingShortDevices(volume, told(isGrownEverywhere(after) ? withoutGrowth(after) : after, at));
};

const usersOn = (volume: VolumeRecord, node: string): readonly string[] =>
  Object.values(volume.claims)
    .filter((c) => c.node === node && (c.state === "OFFERED" || c.state === "ACTIVE" || c.state === "RELEASING"))
    .map((c) => c.uid);

/** The size that nodes were to make cannot be had, and none of them may have begun: the volume is as it was. */
const isOver = ({ byNodes, done, nodes }: Growth, failure: Failure): boolean =>
  byNodes &&
  failure.advice === "fail" &&
  done.length === 0 &&
  Object.values(nodes).every(({ uncertainSince }) => uncertainSince === undefined);

const refused = (volume: VolumeRecord, growth: Growth, node: string, failure: Failure, at: Moment): Change => {
  const before = growth.nodes[node] ?? fresh;
  const subject = { ...volume, node };
  const attempts = failedAttempt(before.attempts, { ...failure, advice: "block" }, at);
  if (failure.code === "FAILED_PRECONDITION") {
    const blocked = blockedFor("EXPAND_IN_USE", subject, failure.message, before.blocked, at.now);
    return told(
      withNode(volume, growth, node, { ...before, attempts, blocked, refusedBeside: usersOn(volume, node) }),
      at,
    );
  }
  if (isOver(growth, failure) && !isPending(volume.expansion)) {
    const { bytes: required, limit, since } = growth;
    const expansion = {
      state: "REFUSED",
      target: { required, limit },
      onlyUnused: false,
      attempts,
      failure: endingOf(failure),
      since,
    } as const;
    return told({ ...withoutGrowth(volume), expansion }, at);
  }
  const blocked = blockedBy("expand", failure, subject, before.blocked, at.now);
  return told(withNode(volume, growth, node, { ...before, attempts, blocked }), at);
};

const unknown = (volume: VolumeRecord, growth: Growth, node: string, failure: Failure, at: Moment): Change => {
  const { blocked: before, ...rest } = growth.nodes[node] ?? fresh;
  // What must not be repeated says so until it may: a later answer, to a call that another controller made, tells nothing of that.
  const blocked = mustNotRepeat(volume, node)
    ? before
    : failure.advice === "block"
      ? blockedBy("expand", failure, { ...volume, node }, before, at.now)
      : undefined;
  return told(
    withNode(volume, growth, node, {
      ...rest,
      uncertainSince: rest.uncertainSince ?? at.now,
      attempts: failedAttempt(rest.attempts, failure, at),
      ...(blocked === undefined ? {} : { blocked }),
    }),
    at,
  );
};

/** `bytes`: the size that was asked for. An answer to a smaller one says nothing about what is owed by now. */
export const growthAnswered = (
  volume: VolumeRecord,
  node: string,
  bytes: number,
  answer: GrowAnswer,
  at: Moment,
): Change => {
  const { growth } = volume;
  if (growth === undefined || growth.done.includes(node) || growth.bytes !== bytes) return noChange(volume);
  switch (answer.kind) {
    case "grown":
      return grown(volume, growth, node, answer, at);
    case "not-here": {
      const before = growth.nodes[node] ?? fresh;
      const attempts = failedAttempt(before.attempts, answer.failure, at);
      return told(withNode(volume, growth, node, { ...before, attempts }), at);
    }
    case "refused":
      return refused(volume, growth, node, answer.failure, at);
    case "unknown":
      return unknown(volume, growth, node, answer.failure, at);
  }
};

/** The last node that owed it has let the volume go. */
export const growthSettled = (volume: VolumeRecord, at: Moment): Change =>
  isGrownEverywhere(volume) ? told(withoutGrowth(volume), at) : noChange(volume);
