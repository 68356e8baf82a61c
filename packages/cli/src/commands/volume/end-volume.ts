import { DeleteVolumeResponse, DeregisterVolumeResponse } from "@holdfast/shared/gen/holdfast/v1/volume";
import type { Command } from "../../frame/command.ts";
import { shown } from "../../frame/output.ts";
import { noWaitOption } from "../wait-options.ts";
import { awaitVolume } from "./await-volume.ts";
import { volumeArg } from "./show-volume.ts";
import { volumeName } from "./volume-words.ts";

const uidOption = {
  flags: "--uid <uid>",
  help: "only this life of the id, so that a late command hits no newer volume",
};

export const deleteVolume: Command = {
  path: ["volume", "delete"],
  summary: "destroy a volume, and its storage unless its policy retains it",
  args: [volumeArg],
  options: [uidOption, noWaitOption],
  examples: [{ line: "holdfast volume delete data", says: "delete it and wait until it is gone" }],
  async run(context, input) {
    const ref = { namespace: context.settings.namespace, id: input.arg("volume") };
    let { volume } = await context.clients.volumes.deleteVolume({ ...ref, uid: input.text("uid") ?? "" });
    if (volume !== undefined && input.flag("wait") !== false) {
      const { uid } = volume;
      const done = await awaitVolume(context, ref, {
        doing: "to be gone",
        reached: (now, gone) => gone || (now !== undefined && now.uid !== uid),
        stop: "",
      });
      volume = done.volume?.uid === uid ? done.volume : undefined;
    }
    context.out.answer(shown("holdfast.v1.DeleteVolumeResponse", DeleteVolumeResponse, { volume }), () =>
      volume === undefined ? `${volumeName(ref)} is gone\n` : `${volumeName(ref)} is being deleted\n`,
    );
  },
};

export const deregisterVolume: Command = {
  path: ["volume", "deregister"],
  summary: "forget a volume and leave its storage alone",
  args: [volumeArg],
  options: [uidOption],
  examples: [{ line: "holdfast volume deregister data", says: "the storage stays as it is" }],
  async run(context, input) {
    const ref = { namespace: context.settings.namespace, id: input.arg("volume") };
    const answer = await context.clients.volumes.deregisterVolume({ ...ref, uid: input.text("uid") ?? "" });
    context.out.answer(
      shown("holdfast.v1.DeregisterVolumeResponse", DeregisterVolumeResponse, answer),
      () => `${volumeName(ref)} is forgotten; its storage is as it was\n`,
    );
  },
};
