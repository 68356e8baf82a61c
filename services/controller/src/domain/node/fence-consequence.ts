/** What a fence of a node would do to a volume, and why the evidence may not cover that. */

import { foreignBlock, foreignWords } from "../attachment/foreign-block.ts";
import { speaksForHold } from "../attachment/foreign-hold.ts";
import { nodeOfName } from "../plugin/instance-name.ts";
import type { PluginProfile } from "../plugin/plugin-profile.ts";
import { type Bar, type VolumeRecord, volumeKey } from "../volume/volume.ts";
import { barsBeforeFence, isOfThisMachine, ofEarlierLife } from "./fence.ts";
import type { NodeFence, NodeRecord } from "./node.ts";

export interface VolumeFence {
  readonly effects: readonly string[];
  readonly plugins: readonly string[];
}

type Found =
  | { readonly kind: "forced"; readonly effects: readonly string[] }
  | { readonly kind: "barred"; readonly bar: Bar }
  /** The evidence says nothing of it. */
  | { readonly kind: "uncovered"; readonly why: string };

/** The gate of the bar is one of the node's own host: that the host is off ends what it had in hand. */
const isOwnGate = (record: NodeRecord, bar: Bar): boolean =>
  nodeOfName(bar.via) === record.name && isOfThisMachine(record, bar);

/** Where the detach is the fence, there has to be one, of a plugin that is known to cut the node off. */
const notCutOff = (volume: VolumeRecord, { name }: NodeRecord, profile: PluginProfile["fence"]): string | undefined => {
  const key = volumeKey(volume);
  if (profile !== "on-detach")
    return `the profile of plugin ${volume.plugin} does not say that detaching fences, and volume ${key} is there; attest that the machine is off, or see holdfast plugin profile`;
  if (volume.attachments[name]?.needsCalls === false)
    return `plugin ${volume.plugin} is never asked to detach, so that nothing cuts the node off from volume ${key}; attest that the machine is off`;
  return volume.foreign?.some(({ node }) => node === name) === true
    ? `the node holds volume ${key} for a claim that the store does not know, and no detach of it is owed; attest that the machine is off`
    : undefined;
};

export const fenceOfVolume = (
  volume: VolumeRecord,
  record: NodeRecord,
  kind: NodeFence["kind"],
  profile: PluginProfile["fence"],
): Found => {
  const { name } = record;
  const key = volumeKey(volume);
  const earlier = ofEarlierLife(record, volume);
  if (earlier !== undefined)
    return {
      kind: "uncovered",
      why: `claim ${earlier.uid} of workload ${earlier.workload} on volume ${key} was granted to another machine that had this name, of which the evidence says nothing; end it first: holdfast repair abandon-claim`,
    };
  const other = volume.foreign?.find((hold) => hold.node === name && !speaksForHold(record, hold));
  if (other !== undefined)
    return {
      kind: "uncovered",
      why: `${foreignWords(volume, other)}; the evidence is of another machine or boot of the name and says nothing of that; ${foreignBlock(volume, other).clearWith}`,
    };
  const why = kind === "on-detach" ? notCutOff(volume, record, profile) : undefined;
  if (why !== undefined) return { kind: "uncovered", why };
  const bars = barsBeforeFence(volume, name);
  const standing = bars.find((bar) => kind === "on-detach" || !isOwnGate(record, bar));
  if (standing !== undefined) return { kind: "barred", bar: standing };
  const claims = Object.values(volume.claims).filter(({ node }) => node === name);
  return {
    kind: "forced",
    effects: [
      ...bars.map(({ opId }) => `bar ${opId} of volume ${key} is lifted: its call was given to this machine`),
      ...claims.map(
        ({ uid, workload, state }) => `claim ${uid} of ${workload} on volume ${key} (${state}) ends FENCED`,
      ),
      ...(volume.attachments[name]?.needsCalls === true ? [`volume ${key} is detached from the node`] : []),
    ],
  };
};

export const fenceRisks = (
  { name, machineId }: NodeRecord,
  kind: NodeFence["kind"],
  plugins: readonly string[],
): readonly string[] =>
  kind === "power-off"
    ? [
        `if machine ${machineId} runs, its workloads write beside the next holders of these volumes, and file systems are lost`,
      ]
    : [
        `if a backend of ${plugins.join(", ")} lets node ${name} write after its detach, two nodes write, and file systems are lost`,
      ];
