/** One call of a client on one volume name, as it went: what was asked, what came back, and when. */
import { VolumeCapability_AccessMode_Mode as Mode } from "@holdfast/shared/gen/csi/v1/csi";
import { outcomeOf } from "./call-outcome.ts";
import type { CsiClients } from "./csi-clients.ts";
import type { DriverProcess } from "./driver-process.ts";
import type { SeededRandom } from "./seeded-random.ts";
import type { Place, SlotAnswer, SlotCall, SlotKind } from "./slot-model.ts";
import { capabilityOf, kindFacts, type VolumeKind } from "./volume-kinds.ts";

export interface Slot extends SlotKind {
  readonly name: string;
  /** Never deleted: what was written before must be there in the end. */
  readonly lasting: boolean;
  readonly staging: Readonly<Record<Place, string>>;
  readonly target: Readonly<Record<Place, string>>;
  readonly sizes: readonly [bigint, bigint];
  /** As the clients last heard; may be out of date, as a CO's knowledge may be. */
  known: { id: string; snapshot: string };
  readonly history: Heard[];
}

export interface Heard {
  readonly call: SlotCall;
  readonly answer: SlotAnswer;
  readonly details: string;
  readonly client: number;
  readonly start: number;
  readonly end: number;
}

const places: readonly Place[] = ["a", "b"];
const mib = 1n << 20n;

export const kindOfSlot = (at: number): VolumeKind =>
  at % 20 === 19 ? "xfs" : ((["directory", "ext4", "block", "directory", "ext4"] as const)[at % 5] ?? "directory");

export const makeSlot = async (driver: DriverProcess, at: number): Promise<Slot> => {
  const kind = kindOfSlot(at);
  const name = `slot-${at}`;
  const { bytes } = kindFacts[kind];
  return {
    name,
    kind,
    singleWriter: at % 3 === 0,
    lasting: at % 3 !== 1,
    staging: { a: await driver.stagingPath(`${name}-a`), b: await driver.stagingPath(`${name}-b`) },
    target: { a: await driver.targetPath(`${name}-a`), b: await driver.targetPath(`${name}-b`) },
    sizes: [bytes, bytes + 4n * mib],
    known: { id: "", snapshot: "" },
    history: [],
  };
};

export const modeOf = ({ singleWriter }: SlotKind): Mode =>
  singleWriter ? Mode.SINGLE_NODE_SINGLE_WRITER : Mode.SINGLE_NODE_MULTI_WRITER;

type Send<C extends SlotCall["call"]> = (
  csi: CsiClients,
  slot: Slot,
  call: Extract<SlotCall, { readonly call: C }>,
) => Promise<string>;

const volumeRequest = (slot: Slot, name: string, bytes: bigint) => ({
  name,
  capacityRange: { requiredBytes: bytes, limitBytes: bytes },
  volumeCapabilities: [capabilityOf(slot.kind, modeOf(slot))],
  parameters: kindFacts[slot.kind].parameters,
});

/** Answers what the driver said, as the model compares it. */
const send: { readonly [C in SlotCall["call"]]: Send<C> } = {
  create: async ({ controller }, slot, { bytes }) => {
    const { volume } = await controller.createVolume(volumeRequest(slot, slot.name, bytes));
    const { volumeId = "" } = volume ?? {};
    slot.known = { ...slot.known, id: volumeId };
    return volumeId;
  },
  delete: async ({ controller }, _slot, { id }) => {
    await controller.deleteVolume({ volumeId: id });
    return "";
  },
  stage: async ({ node }, slot, { id, path }) => {
    const volumeCapability = capabilityOf(slot.kind, modeOf(slot));
    await node.nodeStageVolume({ volumeId: id, stagingTargetPath: slot.staging[path], volumeCapability });
    return "";
  },
  unstage: async ({ node }, slot, { id, path }) => {
    await node.nodeUnstageVolume({ volumeId: id, stagingTargetPath: slot.staging[path] });
    return "";
  },
  publish: async ({ node }, slot, { id, path, target, how }) => {
    await node.nodePublishVolume({
      volumeId: id,
      stagingTargetPath: slot.staging[path],
      targetPath: slot.target[target],
      volumeCapability: capabilityOf(slot.kind, modeOf(slot)),
      readonly: how === "ro",
    });
    return "";
  },
  unpublish: async ({ node }, slot, { id, target }) => {
    await node.nodeUnpublishVolume({ volumeId: id, targetPath: slot.target[target] });
    return "";
  },
  snapshot: async ({ controller }, slot, { id }) => {
    const { snapshot } = await controller.createSnapshot({ sourceVolumeId: id, name: `of-${slot.name}` });
    const { snapshotId = "" } = snapshot ?? {};
    slot.known = { ...slot.known, snapshot: snapshotId };
    return snapshotId;
  },
  deleteSnapshot: async ({ controller }, _slot, { id }) => {
    await controller.deleteSnapshot({ snapshotId: id });
    return "";
  },
  clone: async ({ controller }, slot, { id }) => {
    // A name of its own each time, so that nobody else knows of it; its size may have to be larger than the source's of the moment.
    const { volume } = await controller.createVolume({
      ...volumeRequest(slot, `clone-${performance.now()}-of-${slot.name}`, slot.sizes[1]),
      volumeContentSource: { volume: { volumeId: id } },
    });
    await controller.deleteVolume({ volumeId: volume?.volumeId ?? "" });
    return "";
  },
  expand: async ({ controller }, slot, { id, bytes }) => {
    const { capacityBytes } = await controller.controllerExpandVolume({
      volumeId: id,
      capacityRange: { requiredBytes: bytes },
      volumeCapability: capabilityOf(slot.kind, modeOf(slot)),
    });
    return String(capacityBytes);
  },
  modify: async ({ controller }, _slot, { id }) => {
    await controller.controllerModifyVolume({ volumeId: id, mutableParameters: { "label.of": "a client" } });
    return "";
  },
  modifyWrongly: async ({ controller }, _slot, { id }) => {
    await controller.controllerModifyVolume({ volumeId: id, mutableParameters: { color: "green" } });
    return "";
  },
  get: async ({ controller }, _slot, { id }) => {
    const { volume } = await controller.controllerGetVolume({ volumeId: id });
    return String(volume?.capacityBytes);
  },
};

export const ask = async (csi: CsiClients, slot: Slot, call: SlotCall, client: number): Promise<Heard> => {
  const act = send[call.call] as Send<SlotCall["call"]>;
  const start = performance.now();
  const outcome = await outcomeOf(act(csi, slot, call as never));
  const heard: Heard = {
    call,
    answer: { code: outcome.code, said: outcome.code === "OK" ? outcome.answer : "" },
    details: outcome.code === "OK" ? "" : outcome.details,
    client,
    start,
    end: performance.now(),
  };
  slot.history.push(heard);
  return heard;
};

/** What a client may do, and what it may not: the model knows which is which. */
export const drawCall = (slot: Slot, random: SeededRandom): SlotCall => {
  const { id, snapshot } = slot.known;
  const path = random.chance(0.9) ? "a" : "b";
  const target = random.pick(places);
  const how = random.chance(0.5) ? "rw" : "ro";
  const calls: readonly (readonly [number, SlotCall])[] = [
    [id === "" ? 30 : 3, { call: "create", bytes: random.chance(0.8) ? slot.sizes[0] : slot.sizes[1] }],
    [slot.lasting ? 0 : 4, { call: "delete", id }],
    [8, { call: "stage", id, path }],
    [6, { call: "unstage", id, path }],
    [9, { call: "publish", id, path, target, how }],
    [8, { call: "unpublish", id, target }],
    [2, { call: "snapshot", id }],
    [2, { call: "deleteSnapshot", id: snapshot }],
    [1, { call: "clone", id }],
    [1, { call: "expand", id, bytes: random.chance(0.5) ? slot.sizes[1] : slot.sizes[0] }],
    [1, { call: "modify", id }],
    [1, { call: "modifyWrongly", id }],
    [3, { call: "get", id }],
  ];
  const possible = calls.filter(([, call]) => !("id" in call) || call.id !== "");
  let ticket = random.integer(possible.reduce((sum, [weight]) => sum + weight, 0));
  for (const [weight, call] of possible) {
    ticket -= weight;
    if (ticket < 0) return call;
  }
  throw new Error("no call was drawn");
};
