import {
  ExpandVolumeResponse,
  ModifyVolumeResponse,
  UpdateVolumeResponse,
  type Volume,
} from "@holdfast/shared/gen/holdfast/v1/volume";
import type { Command } from "../../frame/command.ts";
import type { Context } from "../../frame/context.ts";
import { answerOne, oneOption } from "../../frame/one-answer.ts";
import { shown } from "../../frame/output.ts";
import { detailsText } from "../../frame/tables.ts";
import { labelsOf, sizeOf, usage } from "../option-words.ts";
import { noWaitOption } from "../wait-options.ts";
import { awaitVolume, type VolumeRef } from "./await-volume.ts";
import { volumeArg } from "./show-volume.ts";
import { volumeDetails, volumeNames } from "./volume-words.ts";

/** At the backend and wherever it is mounted; where it is not, its file system grows with the next mount. */
const isGrown = ({ expansion }: Volume): boolean =>
  expansion === undefined || (expansion.controllerDone && expansion.pendingNodes.length === 0);

export const growTo = async (
  context: Context,
  ref: VolumeRef,
  capacity: { readonly requiredBytes: bigint; readonly limitBytes: bigint },
  wait: boolean,
): Promise<Volume | undefined> => {
  let { volume } = await context.clients.volumes.expandVolume({ ...ref, capacity });
  if (volume !== undefined && !isGrown(volume) && wait)
    ({ volume } = await awaitVolume(context, ref, {
      doing: "to be bigger",
      reached: (now) => now !== undefined && isGrown(now),
      stop: "",
      part: {
        what: "the expansion",
        of: (now) => now.expansion,
        other: `holdfast volume expand ${ref.id} <size> --namespace ${ref.namespace}`,
      },
    }));
  return volume;
};

export const expandVolume: Command = {
  path: ["volume", "expand"],
  summary: "make a volume bigger",
  description: "At the backend, and then on every node where it is mounted. Asking for what it has is no mistake.",
  args: [volumeArg, { name: "size", help: "what it shall have at least, such as 20GiB" }],
  options: [{ flags: "--limit <size>", help: "what it may have at most" }, noWaitOption, oneOption],
  examples: [{ line: "holdfast volume expand data 20GiB", says: "grow it and wait until every node has seen it" }],
  async run(context, input) {
    const ref = { namespace: context.settings.namespace, id: input.arg("volume") };
    const capacity = {
      requiredBytes: sizeOf("<size>", input.arg("size")),
      limitBytes: sizeOf("--limit", input.text("limit")),
    };
    const volume = await growTo(context, ref, capacity, input.flag("wait"));
    answerOne(context.out, input, {
      answer: shown("holdfast.v1.ExpandVolumeResponse", ExpandVolumeResponse, { volume }),
      names: volumeNames(volume),
      people: () => (volume === undefined ? "" : detailsText(volumeDetails(volume, context.io.now()))),
    });
  },
};

export const modifyTo = async (
  context: Context,
  ref: VolumeRef,
  mutableParameters: Readonly<Record<string, string>>,
  wait: boolean,
): Promise<Volume | undefined> => {
  const otherValues = `holdfast volume modify ${ref.id} <parameters> --namespace ${ref.namespace}`;
  let { volume } = await context.clients.volumes.modifyVolume({ ...ref, mutableParameters });
  if (volume !== undefined && wait)
    ({ volume } = await awaitVolume(context, ref, {
      doing: "to be modified",
      reached: (now) =>
        now !== undefined &&
        now.intent === undefined &&
        Object.entries(mutableParameters).every(([key, value]) => now.mutableParameters[key] === value),
      stop: `${otherValues}    with other values`,
      part: { what: "the modification", of: (now) => now.modification, other: otherValues },
    }));
  return volume;
};

export const modifyVolume: Command = {
  path: ["volume", "modify"],
  summary: "change a volume's mutable parameters at the backend",
  args: [volumeArg, { name: "parameters", help: "key=value, as the plugin's documentation names them", many: true }],
  options: [noWaitOption, oneOption],
  examples: [{ line: "holdfast volume modify data iops=8000", says: "more of what the plugin calls iops" }],
  async run(context, input) {
    const ref = { namespace: context.settings.namespace, id: input.arg("volume") };
    const mutableParameters = labelsOf("<parameters>", input.args("parameters"));
    const volume = await modifyTo(context, ref, mutableParameters, input.flag("wait"));
    answerOne(context.out, input, {
      answer: shown("holdfast.v1.ModifyVolumeResponse", ModifyVolumeResponse, { volume }),
      names: volumeNames(volume),
      people: () => (volume === undefined ? "" : detailsText(volumeDetails(volume, context.io.now()))),
    });
  },
};

export const labelVolume: Command = {
  path: ["volume", "label"],
  summary: "replace a volume's labels",
  args: [volumeArg, { name: "labels", help: "key=value; none takes all away", many: true, optional: true }],
  options: [
    { flags: "--revision <number>", help: "only if the record still has this revision" },
    { flags: "--reason <text>", help: "for the record" },
    oneOption,
  ],
  examples: [{ line: "holdfast volume label data team=search tier=1", says: "these labels and no others" }],
  async run(context, input) {
    const revision = input.text("revision") ?? "0";
    if (!/^\d+$/.test(revision)) throw usage(`--revision ${revision}: has to be a whole number`);
    const answer = await context.clients.volumes.updateVolume({
      namespace: context.settings.namespace,
      id: input.arg("volume"),
      expectedRevision: BigInt(revision),
      labels: { labels: labelsOf("<labels>", input.args("labels")) },
      reason: input.text("reason") ?? "",
    });
    answerOne(context.out, input, {
      answer: shown("holdfast.v1.UpdateVolumeResponse", UpdateVolumeResponse, answer),
      names: volumeNames(answer.volume),
      people: () => (answer.volume === undefined ? "" : detailsText(volumeDetails(answer.volume, context.io.now()))),
    });
  },
};
