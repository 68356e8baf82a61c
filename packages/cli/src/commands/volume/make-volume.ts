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
import { shown } from "../../frame/output.ts";
import { detailsText } from "../../frame/tables.ts";
import { readSpec } from "../../spec/read-spec.ts";
import { noWaitOption } from "../wait-options.ts";
import { awaitVolume } from "./await-volume.ts";
import { volumeDetails, volumeName } from "./volume-words.ts";

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

export const createVolume: Command = {
  path: ["volume", "create"],
  summary: "make a volume from a spec file",
  description:
    "The fields are those of CreateVolumeRequest (docs/reference). Sizes may be written 10GiB, enum values in any case and without their prefix. The record is durable before the plugin is asked; the same file again is the same volume.",
  args: [specFile],
  options: [{ flags: "--id <id>", help: "the id, in place of the file's" }, noWaitOption],
  examples: [
    { line: "holdfast volume create data.yaml", says: "make it and wait until it can be claimed" },
    { line: "holdfast volume create data.yaml --id data-2 --no-wait", says: "another one like it, without waiting" },
  ],
  async run(context, input) {
    const kind = { type: "holdfast.v1.CreateVolumeRequest", codec: CreateVolumeRequest, hidden };
    const spec = await readSpec(context, kind, input.arg("file"), (json) => overrides(context, input, json));
    const answer = await spec.call(() => context.clients.volumes.createVolume(spec.request));
    const volume = await settledVolume(context, input, answer.volume);
    context.out.answer(shown("holdfast.v1.CreateVolumeResponse", CreateVolumeResponse, { volume }), () =>
      volume === undefined ? "" : detailsText(volumeDetails(volume, context.io.now())),
    );
  },
};

export const registerVolume: Command = {
  path: ["volume", "register"],
  summary: "take over storage that exists",
  description:
    "The fields are those of RegisterVolumeRequest (docs/reference); external_id is the plugin's own name for the storage. The plugin is asked whether it can be used as said. Nothing is formatted, nothing deleted.",
  args: [specFile],
  options: [{ flags: "--id <id>", help: "the id, in place of the file's" }, noWaitOption],
  examples: [{ line: "holdfast volume register old.yaml", says: "adopt what old.yaml names" }],
  async run(context, input) {
    const kind = { type: "holdfast.v1.RegisterVolumeRequest", codec: RegisterVolumeRequest, hidden };
    const spec = await readSpec(context, kind, input.arg("file"), (json) => overrides(context, input, json));
    const answer = await spec.call(() => context.clients.volumes.registerVolume(spec.request));
    const volume = await settledVolume(context, input, answer.volume);
    context.out.note(volume === undefined ? "" : `${volumeName(volume)} is registered`);
    context.out.answer(shown("holdfast.v1.RegisterVolumeResponse", RegisterVolumeResponse, { volume }), () =>
      volume === undefined ? "" : detailsText(volumeDetails(volume, context.io.now())),
    );
  },
};
