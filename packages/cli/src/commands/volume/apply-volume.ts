import type { JsonValue } from "@bufbuild/protobuf";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import {
  CreateVolumeRequest,
  GetVolumeResponse,
  UpdateVolumeRequest,
  Volume,
} from "@holdfast/shared/gen/holdfast/v1/volume";
import { CliFailure } from "../../frame/cli-failure.ts";
import type { Command } from "../../frame/command.ts";
import type { Context } from "../../frame/context.ts";
import { exitCodes } from "../../frame/exit-code.ts";
import { answerOne, oneOption } from "../../frame/one-answer.ts";
import { shown } from "../../frame/output.ts";
import { detailsText } from "../../frame/tables.ts";
import { type ReadSpec, readSpec } from "../../spec/read-spec.ts";
import { usage } from "../option-words.ts";
import { noWaitOption } from "../wait-options.ts";
import type { VolumeRef } from "./await-volume.ts";
import { growTo, modifyTo } from "./change-volume.ts";
import { type VolumeDifference, volumeDifference } from "./volume-difference.ts";
import { volumeDetails, volumeName, volumeNames } from "./volume-words.ts";

const hidden = ["request_id", "wait_for"];

type Json = Readonly<Record<string, JsonValue>>;

const recordOf = async ({ clients }: Context, ref: VolumeRef, file: string): Promise<Volume> => {
  try {
    const { volume } = await clients.volumes.getVolume(ref);
    if (volume !== undefined) return volume;
  } catch (error) {
    if (!isHoldfastError(error) || error.reason !== "VOLUME_NOT_FOUND") throw error;
  }
  throw new CliFailure({
    exitCode: exitCodes.notFound,
    reason: "VOLUME_NOT_FOUND",
    message: `there is no volume ${volumeName(ref)} that the file could be applied to`,
    next: [`holdfast volume create ${file} --namespace ${ref.namespace}    makes it`],
  });
};

const unconfirmed = (exitCode: 1 | 2, name: string, next: readonly string[]): CliFailure =>
  new CliFailure({ exitCode, reason: "NOT_CONFIRMED", message: `nothing of ${name} was changed`, next });

/** Throws unless a person, or --yes, agrees. */
const confirmed = async ({ io, out }: Context, name: string): Promise<void> => {
  const yes = out.json ? undefined : await io.confirm(`Change ${name} so?`);
  if (yes === undefined)
    throw unconfirmed(exitCodes.usage, name, [
      "there is no terminal to ask at: the same command with --yes changes it",
    ]);
  if (!yes) throw unconfirmed(exitCodes.failed, name, []);
};

/** Each part is safe to repeat: after a failure the same command does the rest. */
const apply = async (
  context: Context,
  volume: Volume,
  spec: ReadSpec<CreateVolumeRequest>,
  difference: VolumeDifference,
  options: { readonly reason: string; readonly wait: boolean },
): Promise<Volume | undefined> => {
  const ref = { namespace: volume.namespace, id: volume.id };
  const { update, grows, mutableParameters } = difference;
  let now: Volume | undefined = volume;
  if (Object.keys(update).length > 0) {
    const { labels, capabilities, ...parts } = update;
    const json = {
      ...ref,
      expected_revision: String(volume.revision),
      reason: options.reason,
      ...parts,
      ...(labels === undefined ? {} : { labels: { labels } }),
      ...(capabilities === undefined ? {} : { capabilities: { capabilities } }),
    };
    const bytes = (await context.messages()).toBytes("holdfast.v1.UpdateVolumeRequest", json as JsonValue);
    const request = UpdateVolumeRequest.decode(bytes);
    ({ volume: now } = await spec.call(() => context.clients.volumes.updateVolume(request)));
    context.out.note(`${Object.keys(update).join(", ")}: done`);
  }
  if (grows) {
    const { requiredBytes = 0n, limitBytes = 0n } = spec.request.capacity ?? {};
    now = await growTo(context, ref, { requiredBytes, limitBytes }, options.wait);
  }
  if (Object.keys(mutableParameters).length > 0) now = await modifyTo(context, ref, mutableParameters, options.wait);
  return now;
};

export const applyVolume: Command = {
  path: ["volume", "apply"],
  summary: "change a volume so that it is as an edited file says",
  description:
    "The file is one that `volume create` takes. Shows the difference, and asks. Changed are labels, secrets, capabilities and policy, the size upwards, and mutable parameters; a field that the file leaves out stays as it is. What is decided when a volume is made cannot differ: then nothing is changed.",
  args: [{ name: "file", help: "the spec, YAML or JSON; - reads standard input", completes: "file" }],
  options: [
    { flags: "--id <id>", help: "the id, in place of the file's" },
    { flags: "--yes", help: "do not ask" },
    { flags: "--dry-run", help: "show the difference, and change nothing" },
    { flags: "--reason <text>", help: "for the record" },
    noWaitOption,
    oneOption,
  ],
  examples: [
    { line: "holdfast volume apply data.yaml --dry-run", says: "what would change?" },
    { line: "holdfast volume apply data.yaml --yes", says: "change it without a question" },
  ],
  async run(context, input) {
    const { settings, out, io } = context;
    const dryRun = input.flag("dry-run");
    if (dryRun && input.text("output") === "name")
      throw usage("--dry-run and --output name exclude each other: a difference has no name");
    const messages = await context.messages();
    const kind = { type: "holdfast.v1.CreateVolumeRequest", codec: CreateVolumeRequest, hidden };
    const file = input.arg("file");
    let given: Json = {};
    const spec = await readSpec(context, kind, file, (json) => {
      given = json;
      return {
        ...(json["namespace"] === undefined ? { namespace: settings.namespace } : {}),
        ...(input.text("id") === undefined ? {} : { id: input.text("id") ?? "" }),
      };
    });
    const { namespace, id } = spec.request;
    const volume = await recordOf(context, { namespace, id }, file);
    const difference = volumeDifference(
      given,
      messages.toJson(kind.type, CreateVolumeRequest.encode(spec.request).finish()) as Json,
      messages.toJson("holdfast.v1.Volume", Volume.encode(volume).finish()) as Json,
    );
    if (difference.fixed.length > 0) throw spec.refused("cannot be applied; nothing was changed", difference.fixed);
    const name = volumeName(volume);
    const words =
      difference.lines.length === 0
        ? `volume ${name} is as the file says`
        : [`volume ${name}`, ...difference.lines.map((line) => `  ${line}`)].join("\n");
    if (!dryRun) out.note(words);
    let now: Volume | undefined = volume;
    if (difference.lines.length > 0 && !dryRun) {
      if (!input.flag("yes")) await confirmed(context, name);
      const options = { reason: input.text("reason") ?? "", wait: input.flag("wait") };
      now = await apply(context, volume, spec, difference, options);
    }
    answerOne(out, input, {
      answer: shown("holdfast.v1.GetVolumeResponse", GetVolumeResponse, { volume: now }),
      names: volumeNames(now),
      people: () => (dryRun ? `${words}\n` : now === undefined ? "" : detailsText(volumeDetails(now, io.now()))),
    });
  },
};
