import {
  CreateVolumeRequest,
  CreateVolumeResponse,
  RegisterVolumeRequest,
  RegisterVolumeResponse,
  type Volume,
  VolumeState,
} from "@holdfast/shared/gen/holdfast/v1/volume";
import type { Command, Input } from "../../frame/command.ts";
import type { Context } from "../../frame/context.ts";
import { answerOne, oneOption } from "../../frame/one-answer.ts";
import { shown } from "../../frame/output.ts";
import { detailsText } from "../../frame/tables.ts";
import { readSpec } from "../../spec/read-spec.ts";
import { usage } from "../option-words.ts";
import { noWaitOption } from "../wait-options.ts";
import { awaitVolume } from "./await-volume.ts";
import { newVolumeOptions, newVolumeOptionsGiven, newVolumeRequest } from "./new-volume-request.ts";
import { volumeDetails, volumeName, volumeNames } from "./volume-words.ts";

const specFile = { name: "file", help: "the spec, YAML or JSON; - reads standard input", completes: "file" } as const;
const hidden = ["request_id", "wait_for"];

/** What stands on the command line, or in the settings, in place of the file's. */
const overrides = ({ settings }: Context, input: Input, given: Readonly<Record<string, unknown>>) => ({
  ...(given["namespace"] === undefined || given["namespace"] === "" ? { namespace: settings.namespace } : {}),
  ...(input.text("id") === undefined ? {} : { id: input.text("id") ?? "" }),
});

const settledVolume = async (context: Context, input: Input, volume: Volume | undefined) => {
  if (volume === undefined || input.flag("wait") === false) return volume;
  const ref = { namespace: volume.namespace, id: volume.id };
  const done = await awaitVolume(context, ref, {
    doing: "to be available",
    reached: (now) => now?.state === VolumeState.VOLUME_STATE_AVAILABLE,
    stop: `holdfast volume delete ${ref.id} --namespace ${ref.namespace}`,
  });
  return done.volume;
};

const requestOfFile = async (context: Context, input: Input) => {
  const given = newVolumeOptionsGiven(input);
  if (given.length > 0)
    throw usage(
      `${given.join(", ")}: without --plugin the volume is described by a file; with it, by its name and options`,
    );
  const kind = { type: "holdfast.v1.CreateVolumeRequest", codec: CreateVolumeRequest, hidden };
  const file = input.arg("name-or-file");
  const next = /^[a-z0-9][a-z0-9-]*$/.test(file)
    ? [`holdfast volume create ${file} --plugin <plugin> --size <size>    makes a volume of this name without a file`]
    : [];
  return readSpec(context, kind, file, (json) => overrides(context, input, json), next);
};

export const createVolume: Command = {
  path: ["volume", "create"],
  summary: "make a volume, from options or from a spec file",
  description:
    "With --plugin the volume has the name given and is described by the options. Without it, the argument is a file with the fields of CreateVolumeRequest (docs/reference): sizes may be written 10GiB, enum values in any case and without their prefix. The record is durable before the plugin is asked; the same command again is the same volume.",
  args: [
    {
      name: "name-or-file",
      help: "with --plugin a name; else the spec, YAML or JSON; - reads standard input",
      completes: "file",
    },
  ],
  options: [
    ...newVolumeOptions,
    { flags: "--id <id>", help: "the id, in place of the file's" },
    noWaitOption,
    oneOption,
  ],
  examples: [
    {
      line: "holdfast volume create data --plugin local.holdfast.dev --size 10GiB",
      says: "make it and wait until it can be claimed",
    },
    {
      line: "holdfast volume create raw --plugin local.holdfast.dev --size 1GiB --block --mode single-node-single-writer",
      says: "a block device for one workload at a time",
    },
    { line: "holdfast volume create data.yaml", says: "as the file says" },
    { line: "holdfast volume create data.yaml --id data-2 --no-wait", says: "another one like it, without waiting" },
  ],
  async run(context, input) {
    const plugin = input.text("plugin");
    let answer: CreateVolumeResponse;
    if (plugin === undefined) {
      const spec = await requestOfFile(context, input);
      answer = await spec.call(() => context.clients.volumes.createVolume(spec.request));
    } else {
      if (input.text("id") !== undefined) throw usage("--id: with --plugin the argument is the id");
      const id = input.arg("name-or-file");
      answer = await context.clients.volumes.createVolume(
        newVolumeRequest({ namespace: context.settings.namespace, id, plugin }, input),
      );
    }
    const volume = await settledVolume(context, input, answer.volume);
    answerOne(context.out, input, {
      answer: shown("holdfast.v1.CreateVolumeResponse", CreateVolumeResponse, { volume }),
      names: volumeNames(volume),
      people: () => (volume === undefined ? "" : detailsText(volumeDetails(volume, context.io.now()))),
    });
  },
};

export const registerVolume: Command = {
  path: ["volume", "register"],
  summary: "take over storage that exists",
  description:
    "The fields are those of RegisterVolumeRequest (docs/reference); external_id is the plugin's own name for the storage. The plugin is asked whether it can be used as said. Nothing is formatted, nothing deleted.",
  args: [specFile],
  options: [{ flags: "--id <id>", help: "the id, in place of the file's" }, noWaitOption, oneOption],
  examples: [{ line: "holdfast volume register old.yaml", says: "adopt what old.yaml names" }],
  async run(context, input) {
    const kind = { type: "holdfast.v1.RegisterVolumeRequest", codec: RegisterVolumeRequest, hidden };
    const spec = await readSpec(context, kind, input.arg("file"), (json) => overrides(context, input, json));
    const answer = await spec.call(() => context.clients.volumes.registerVolume(spec.request));
    const volume = await settledVolume(context, input, answer.volume);
    context.out.note(volume === undefined ? "" : `${volumeName(volume)} is registered`);
    answerOne(context.out, input, {
      answer: shown("holdfast.v1.RegisterVolumeResponse", RegisterVolumeResponse, { volume }),
      names: volumeNames(volume),
      people: () => (volume === undefined ? "" : detailsText(volumeDetails(volume, context.io.now()))),
    });
  },
};
