/** What Nomad's create means: a volume specification → the volume that is asked for. Every violation is told at once. */
import { isId } from "@holdfast/model/id";
import { type OptionFault, type VolumeOptions, type WantedVolume, wantedVolume } from "./wanted-volume.ts";

/** In the texts of Nomad's variables. */
export interface NomadRequest {
  readonly namespace: string;
  readonly id: string;
  readonly name: string;
  readonly capacityMin: string;
  readonly capacityMax: string;
  /** JSON, an object of texts; `null` without any. */
  readonly parameters: string;
}

/** Nomad has a place of its own for these, or a volume of it is always made so. */
const elsewhere: VolumeOptions = {
  size: "is capacity_min of the specification",
  limit: "is capacity_max of the specification",
  create: "is not for Nomad: its volumes are made for the node that they are asked on",
  template: "is not for Nomad: write the options themselves",
};

const optionsFrom = (text: string): VolumeOptions | undefined => {
  try {
    const value: unknown = JSON.parse(text === "" ? "null" : text);
    if (value === null) return {};
    if (typeof value !== "object" || Array.isArray(value)) return undefined;
    return Object.values(value).every((one) => typeof one === "string") ? (value as VolumeOptions) : undefined;
  } catch {
    return undefined;
  }
};

export const nomadVolume = (
  request: NomadRequest,
): { readonly volume: WantedVolume } | { readonly faults: readonly OptionFault[] } => {
  const faults: OptionFault[] = [];
  const fault = (field: string, description: string): void => void faults.push({ field, description });
  if (!isId(request.namespace))
    fault("DHV_NAMESPACE", "has to be a namespace of Holdfast: 1 to 64 of a-z, 0-9, '.', '_', '-'");
  if (!isId(request.id)) fault("DHV_VOLUME_ID", "has to be 1 to 64 of a-z, 0-9, '.', '_', '-'");
  const bytes = (field: string, text: string): bigint => {
    if (/^\d{1,18}$/.test(text)) return BigInt(text);
    fault(field, "has to be a number of bytes");
    return 0n;
  };
  const requiredBytes = bytes("DHV_CAPACITY_MIN_BYTES", request.capacityMin);
  const limitBytes = bytes("DHV_CAPACITY_MAX_BYTES", request.capacityMax);
  const parameters = optionsFrom(request.parameters);
  if (parameters === undefined) {
    fault("DHV_PARAMETERS", "has to be an object of texts");
    return { faults };
  }
  const own: Record<string, string> = {};
  for (const [option, text] of Object.entries(parameters))
    if (Object.hasOwn(elsewhere, option)) fault(`parameters.${option}`, elsewhere[option] ?? "");
    else own[option] = text;
  const result = wantedVolume("volume", own, {});
  if ("faults" in result) for (const { field, description } of result.faults) fault(`parameters.${field}`, description);
  if (!("volume" in result) || faults.length > 0) return { faults };
  const { id, name } = request;
  const labels = { "nomad.name": name, ...result.volume.labels };
  return { volume: { ...result.volume, id, labels, requiredBytes, limitBytes, grow: true } };
};
