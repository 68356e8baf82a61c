/** A volume of Nomad's CSI client, as `GET /v1/volume/csi/ID` answers it → the request that takes its storage over. Every violation is told. */
import { isId } from "@holdfast/model/id";
import { AccessMode, AttachmentMode } from "@holdfast/shared/gen/holdfast/v1/common";
import { RegisterVolumeRequest } from "@holdfast/shared/gen/holdfast/v1/volume";
import { accessModes } from "../volume/volume-words.ts";

export interface NomadMapping {
  /** By Nomad's ids of plugins: names of drivers. */
  readonly plugins: Readonly<Record<string, string>>;
  /** By Nomad's ids of volumes. */
  readonly ids: Readonly<Record<string, string>>;
}

export interface MappedVolume {
  /** `namespace/id`, in Nomad. */
  readonly nomad: string;
  readonly request: RegisterVolumeRequest;
  /** Of all that cannot be taken over as it is; empty: it can. */
  readonly violations: readonly string[];
}

type Json = Readonly<Record<string, unknown>>;

const redacted = "[REDACTED]";

const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const textOf = (value: unknown): string => (typeof value === "string" ? value : "");
const listOf = (value: unknown): readonly Json[] => (Array.isArray(value) ? value.filter(isObject) : []);

/** What runs on it in Nomad: by the volume's own record, or by an entry of the list. */
const usersOf = (volume: Json): readonly string[] => {
  const ids = ["ReadAllocs", "WriteAllocs"].flatMap((key) => Object.keys(isObject(volume[key]) ? volume[key] : {}));
  const listed = listOf(volume["Allocations"]).filter(
    ({ ClientStatus }) => !["complete", "failed", "lost"].includes(textOf(ClientStatus)),
  );
  const counted = ["CurrentReaders", "CurrentWriters"].reduce((sum, key) => sum + Number(volume[key] ?? 0), 0);
  const named = [...new Set([...ids, ...listed.map(({ ID }) => textOf(ID))])];
  return named.length > 0 || counted === 0 ? named : [`${counted} allocations`];
};

export const nomadCsiVolume = (volume: Json, mapping: NomadMapping): MappedVolume => {
  const violations: string[] = [];
  const wrong = (field: string, says: string): void => void violations.push(`${field} ${says}`);
  const own = textOf(volume["ID"]);
  const namespace = textOf(volume["Namespace"]) || "default";
  const nomad = `${namespace}/${own}`;
  // One of `per_alloc` is named NAME[0].
  const id = mapping.ids[own] ?? own.replace(/\[(\d+)\]$/, "-$1");
  if (own === "") wrong("ID", "is missing: is this the answer to GET /v1/volume/csi/ID?");
  else if (!isId(id))
    wrong("ID", `is none of Holdfast (1 to 64 of a-z, 0-9, '.', '_', '-'): give it one, --id '${own}=NAME'`);
  if (!isId(namespace)) wrong("Namespace", "is none of Holdfast (1 to 64 of a-z, 0-9, '.', '_', '-')");
  if (volume["HostPath"] !== undefined) wrong("HostPath", "is of a host volume: only volumes of CSI are taken over");

  const pluginId = textOf(volume["PluginID"]);
  const plugin = mapping.plugins[pluginId] ?? textOf(volume["Provider"]);
  if (plugin === "")
    wrong("Provider", `is empty, so the driver is not known: name it, --plugin '${pluginId}=csi.example.com'`);

  const users = usersOf(volume);
  if (users.length > 0)
    wrong("Allocations", `use it in Nomad (${users.join(", ")}): stop them first, as nothing may have two owners`);

  const { FSType: fsType, MountFlags } = isObject(volume["MountOptions"]) ? volume["MountOptions"] : {};
  const mountFlags = Array.isArray(MountFlags) ? MountFlags.map(textOf) : [];
  if (mountFlags.includes(redacted))
    wrong("MountOptions.MountFlags", "are redacted by Nomad: write into the file what its specification has");
  const modes = listOf(volume["RequestedCapabilities"]);
  if (modes.length === 0)
    wrong("RequestedCapabilities", "are missing: an entry of the list has none; GET /v1/volume/csi/ID has");
  const capabilities = modes.map((mode, i) => {
    const at = `RequestedCapabilities[${i}]`;
    const accessMode = accessModes.parse(textOf(mode["AccessMode"])) ?? AccessMode.ACCESS_MODE_UNSPECIFIED;
    if (accessMode === AccessMode.ACCESS_MODE_UNSPECIFIED)
      wrong(`${at}.AccessMode`, `${JSON.stringify(mode["AccessMode"])} is none of CSI`);
    const block = mode["AttachmentMode"] === "block-device";
    if (!block && mode["AttachmentMode"] !== "file-system")
      wrong(
        `${at}.AttachmentMode`,
        `${JSON.stringify(mode["AttachmentMode"])} is neither file-system nor block-device`,
      );
    return block
      ? { accessMode, attachmentMode: AttachmentMode.ATTACHMENT_MODE_BLOCK_DEVICE }
      : {
          ...{ accessMode, attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM },
          ...{ fsType: textOf(fsType), mountFlags },
        };
  });

  /** A map of texts. */
  const mapOf = (field: string): Record<string, string> => {
    const entries = Object.entries(isObject(volume[field]) ? volume[field] : {});
    for (const [key, value] of entries)
      if (typeof value !== "string") wrong(`${field}.${key}`, "is no text");
      else if (value === redacted)
        wrong(`${field}.${key}`, "is redacted by Nomad: write the value into the file, readable for you alone");
    return Object.fromEntries(entries.map(([key, value]) => [key, textOf(value)]));
  };
  const capacity = Number(volume["Capacity"] ?? 0);
  if (!Number.isSafeInteger(capacity) || capacity < 0) wrong("Capacity", "has to be a number of bytes");

  const request = RegisterVolumeRequest.fromPartial({
    ...{ namespace, id, plugin, capabilities },
    // Nomad itself takes the id where there is no other one.
    externalId: textOf(volume["ExternalID"]) || own,
    context: mapOf("Context"),
    parameters: mapOf("Parameters"),
    inlineSecrets: mapOf("Secrets"),
    capacity: { requiredBytes: violations.length === 0 ? BigInt(capacity) : 0n },
    accessibleTopology: listOf(volume["Topologies"]).map(({ Segments }) => ({
      segments: Object.fromEntries(
        Object.entries(isObject(Segments) ? Segments : {}).map(([key, value]) => [key, textOf(value)]),
      ),
    })),
    labels: { "nomad.id": own, ...(textOf(volume["Name"]) === "" ? {} : { "nomad.name": textOf(volume["Name"]) }) },
  });
  return { nomad, request, violations };
};

/** Two of them that would be one record, or one piece of storage under two names. */
export const withClashes = (volumes: readonly MappedVolume[]): readonly MappedVolume[] => {
  const clash = (one: MappedVolume, key: (request: RegisterVolumeRequest) => string): string | undefined =>
    volumes.find((other) => other !== one && key(other.request) === key(one.request))?.nomad;
  return volumes.map((one) => {
    const record = clash(one, ({ namespace, id }) => `${namespace}/${id}`);
    const storage = clash(one, ({ plugin, externalId }) => `${plugin}\n${externalId}`);
    return {
      ...one,
      violations: [
        ...one.violations,
        ...(record === undefined ? [] : [`ID would be the same as that of ${record}: give it another, --id`]),
        ...(storage === undefined ? [] : [`ExternalID is the same as that of ${storage}: take one of the two over`]),
      ],
    };
  });
};
