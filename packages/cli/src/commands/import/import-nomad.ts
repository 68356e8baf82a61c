/** `holdfast import nomad`: first says what would be taken over, and with --apply does it. */
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { RegisterVolumeRequest, RegisterVolumeResponse, VolumeState } from "@holdfast/shared/gen/holdfast/v1/volume";
import { CliFailure } from "../../frame/cli-failure.ts";
import type { Command } from "../../frame/command.ts";
import type { Context } from "../../frame/context.ts";
import { exitCodes } from "../../frame/exit-code.ts";
import { shown } from "../../frame/output.ts";
import { readText } from "../../spec/read-spec.ts";
import { labelsOf } from "../option-words.ts";
import { awaitVolume } from "../volume/await-volume.ts";
import { volumeName } from "../volume/volume-words.ts";
import { noWaitOption } from "../wait-options.ts";
import { type MappedVolume, nomadCsiVolume, withClashes } from "./nomad-csi-volume.ts";

type Json = Readonly<Record<string, unknown>>;

const badFile = (file: string, says: string): CliFailure =>
  new CliFailure({ exitCode: exitCodes.usage, reason: "BAD_SPEC", message: `${file} ${says}` });

/** One volume, or an array of them. */
const volumesIn = async (context: Context, file: string): Promise<readonly Json[]> => {
  const name = file === "-" ? "(standard input)" : file;
  const text = await readText(context, file);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // The message of the parser repeats what it read, and that may be a secret.
    throw badFile(name, "is no JSON");
  }
  const list: readonly unknown[] = Array.isArray(value) ? value : [value];
  const isObject = (one: unknown): one is Json => typeof one === "object" && one !== null && !Array.isArray(one);
  if (!list.every(isObject)) throw badFile(name, "has to hold a volume of Nomad, or an array of volumes");
  return list;
};

const unless = (reason: string) => (error: unknown) => {
  if (isHoldfastError(error) && error.reason === reason) return undefined;
  throw error;
};

/** What the controller knows already: undefined, or that it is this volume, or what is in the way. */
const standing = async ({ clients }: Context, { request }: MappedVolume) => {
  const { namespace, id, plugin, externalId } = request;
  const found = await clients.volumes.getVolume({ namespace, id }).catch(unless("VOLUME_NOT_FOUND"));
  if (found?.volume !== undefined) {
    const { volume } = found;
    const same = volume.plugin === plugin && volume.externalId === externalId;
    return same ? { same: true } : { wrong: `ID is taken in Holdfast by other storage (${volume.externalId}): --id` };
  }
  const known = await clients.plugins.getPlugin({ name: plugin }).catch(unless("PLUGIN_NOT_FOUND"));
  return known === undefined ? { wrong: `Provider ${plugin} is no plugin that Holdfast knows: start it first` } : {};
};

const judged = async (context: Context, volumes: readonly MappedVolume[]) =>
  await Promise.all(
    volumes.map(async (one) => {
      const known: { readonly same?: boolean; readonly wrong?: string } =
        one.request.plugin === "" || one.request.id === "" ? {} : await standing(context, one).catch(refusedWords);
      const violations = known.wrong === undefined ? one.violations : [...one.violations, known.wrong];
      return { ...one, same: known.same === true, violations };
    }),
  );

/** Of a name that the controller does not take: it is a violation of its own already. */
const refusedWords = (error: unknown) => {
  if (isHoldfastError(error) && error.reason === "INVALID_ARGUMENT") return {};
  throw error;
};

const refusal = (volumes: readonly MappedVolume[]): CliFailure => {
  const bad = volumes.filter(({ violations }) => violations.length > 0);
  return new CliFailure({
    exitCode: exitCodes.usage,
    reason: "BAD_SPEC",
    message: `${bad.length} of ${volumes.length} volumes cannot be taken over so; nothing was changed`,
    details: bad.flatMap(({ nomad, violations }) => violations.map((violation) => `${nomad}: ${violation}`)),
  });
};

const lineOf = ({ nomad, request, same }: MappedVolume & { readonly same: boolean }): string =>
  `${nomad} → ${volumeName(request)}  ${request.plugin} ${request.externalId}${same ? "  (is there already)" : ""}`;

const takenOver = async (context: Context, { request }: MappedVolume, wait: boolean) => {
  const { volume } = await context.clients.volumes.registerVolume(request);
  if (volume === undefined || !wait) return volume;
  const ref = { namespace: volume.namespace, id: volume.id };
  const done = await awaitVolume(context, ref, {
    doing: "to be available",
    reached: (now) => now?.state === VolumeState.VOLUME_STATE_AVAILABLE,
    stop: `holdfast volume deregister ${ref.id} --namespace ${ref.namespace}`,
  });
  return done.volume;
};

export const importNomad: Command = {
  path: ["import", "nomad"],
  summary: "take over the volumes of Nomad's CSI client",
  description:
    "Reads answers to GET /v1/volume/csi/ID, one or an array of them, and shows what RegisterVolume would be asked; with --apply asks it. What cannot be mapped is told, all of it, and then nothing is changed. Nothing is formatted or deleted, and Nomad is not asked; deregister the volumes there afterwards (docs/nomad.md). Repeating it changes nothing.",
  args: [{ name: "file", help: "JSON of Nomad; - reads standard input", many: true, completes: "file" }],
  options: [
    { flags: "--apply", help: "take them over, and do not only show it" },
    { flags: "--plugin <nomad=driver>", help: "the driver of a plugin id of Nomad, in place of Provider", many: true },
    { flags: "--id <nomad=id>", help: "the id here of a volume of Nomad", many: true },
    noWaitOption,
  ],
  examples: [
    { line: "holdfast import nomad volumes.json", says: "what would be taken over, and what cannot be?" },
    {
      line: "holdfast import nomad db.json web.json --plugin ebs0=ebs.csi.aws.com --apply",
      says: "take two volumes over",
    },
  ],
  async run(context, input) {
    const { out } = context;
    const mapping = {
      plugins: labelsOf("--plugin", input.list("plugin")),
      ids: labelsOf("--id", input.list("id")),
    };
    const read = (await Promise.all(input.args("file").map((file) => volumesIn(context, file)))).flat();
    const mapped = withClashes(read.map((volume) => nomadCsiVolume(volume, mapping)));
    const volumes = await judged(context, mapped);
    if (volumes.some(({ violations }) => violations.length > 0)) throw refusal(volumes);
    if (!input.flag("apply")) {
      // Values of secrets are no answer.
      for (const one of volumes) {
        const request = { ...one.request, inlineSecrets: {} };
        out.line(shown("holdfast.v1.RegisterVolumeRequest", RegisterVolumeRequest, request), () => `${lineOf(one)}\n`);
      }
      out.note("nothing was changed: with --apply they are taken over");
      return;
    }
    for (const one of volumes) {
      const volume = await takenOver(context, one, input.flag("wait"));
      out.line(
        shown("holdfast.v1.RegisterVolumeResponse", RegisterVolumeResponse, { volume }),
        () => `${lineOf(one)}\n`,
      );
    }
  },
};
