/** Every setting of the driver. Read once at start; all mistakes are told together. */
import { type ConfigOf, defineConfig } from "@holdfast/shared/config/config";
import { ConfigError } from "@holdfast/shared/config/config-error";
import { serviceSettings } from "@holdfast/shared/config/service-settings";
import {
  boolSetting,
  durationSetting,
  enumSetting,
  intSetting,
  listSetting,
  optional,
  pathSetting,
  type Setting,
  stringSetting,
  tcpAddressSetting,
} from "@holdfast/shared/config/setting";
import type { FieldViolation } from "@holdfast/shared/errors/holdfast-error";
import { holdfastVersion } from "@holdfast/shared/holdfast-version";
import type { FsType, VolumeType } from "./domain/records.ts";
import type { DriverSettings } from "./operations.ts";

const volumeTypes: readonly VolumeType[] = ["directory", "image"];
const fsTypes: readonly FsType[] = ["ext4", "xfs"];

/** Each item of a list by the setting for one, so that what is said of it is the same. */
const listOf = (base: Setting<readonly string[]>, one: Pick<Setting<string>, "parse">): Setting<readonly string[]> => ({
  ...base,
  parse: (text) => {
    const parsed = base.parse(text);
    if (!("value" in parsed)) return parsed;
    if (parsed.value.length === 0) return { wrong: "has to name one at least" };
    const wrong: string[] = [];
    const value = parsed.value.map((item) => {
      const read = one.parse(item);
      if ("value" in read) return read.value;
      wrong.push(`${item}: ${read.wrong}`);
      return item;
    });
    if (new Set(value).size < value.length) wrong.push("names the same thing twice");
    return wrong.length === 0 ? { value } : { wrong: wrong.join("; ") };
  },
});

/** sockaddr_un's room. */
const socketBytes = 107;

const sockets = (() => {
  const env = "HOLDFAST_LOCAL_SOCKET";
  const doc = `Sockets that all services are on, each of at most ${socketBytes} bytes: one for the agent, and where the controller looks elsewhere, one for it.`;
  const path = pathSetting({ env, doc });
  const parse: typeof path.parse = (text) => {
    const parsed = path.parse(text);
    if (!("value" in parsed)) return parsed;
    const bytes = Buffer.byteLength(parsed.value);
    return bytes <= socketBytes ? parsed : { wrong: `has ${bytes} bytes, ${socketBytes} are allowed` };
  };
  // The type of a list setting asks for a default; this one has to be given.
  const base = { ...listSetting({ env, doc, default: [] }), default: undefined, required: true };
  return listOf(base, { parse });
})();

const socketMode = stringSetting({
  env: "HOLDFAST_LOCAL_SOCKET_MODE",
  doc: "Permissions of the sockets, in octal. Whoever may connect can read and destroy every volume.",
  pattern: /^0?[0-7]{3}$/,
  hint: "has to be three octal digits, such as 0600",
  default: "0600",
});

const types = (() => {
  const env = "HOLDFAST_LOCAL_TYPES";
  const doc =
    "Volume types on offer: directory, image. When not set: both where loop devices can be made, else directory.";
  const base = { ...listSetting({ env, doc, default: [] }), default: undefined };
  return optional(listOf(base, enumSetting({ env, doc, values: volumeTypes })));
})();

const units: Readonly<Record<string, number>> = { "": 1, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40 };

const bytesOf = (size: string): bigint => {
  const [, digits = "0", unit = ""] = /^(\d+)(.*)$/.exec(size) ?? [];
  return BigInt(digits) * BigInt(units[unit] ?? 1);
};

/** Below it no filesystem fits: `docs/local-driver.md`. */
const smallest: Readonly<Record<FsType, bigint>> = { ext4: 16n << 20n, xfs: 300n << 20n };

const defaultSize = (() => {
  const base = stringSetting({
    env: "HOLDFAST_LOCAL_DEFAULT_SIZE",
    doc: "Of an image of which no size is asked: bytes, or with Ki, Mi, Gi or Ti.",
    default: "1Gi",
  });
  const parse: typeof base.parse = (text) => {
    const [, digits = "", unit = ""] = /^([1-9]\d{0,14})(|Ki|Mi|Gi|Ti)$/.exec(text) ?? [];
    if (digits === "" || units[unit] === undefined)
      return { wrong: "has to be a number of bytes such as 1073741824, 512Mi or 1Gi" };
    return bytesOf(text) < smallest.ext4 ? { wrong: `has to be at least ${smallest.ext4} bytes` } : { value: text };
  };
  return { ...base, type: "size", parse };
})();

const { insecure: _noTcp, ...seen } = serviceSettings;

export const configSchema = defineConfig({
  sockets,
  socketMode,
  stateDir: pathSetting({
    env: "HOLDFAST_LOCAL_STATE_DIR",
    doc: "Where volumes and snapshots are kept; one driver alone may use it.",
    default: "/var/lib/holdfast/local",
  }),
  nodeId: stringSetting({
    env: "HOLDFAST_LOCAL_NODE_ID",
    doc: "This node's name to the driver and in its topology.",
    pattern: /^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/,
    hint: "has to be 63 letters, digits, '.', '_' or '-' at most, with a letter or digit at both ends",
  }),
  name: stringSetting({
    env: "HOLDFAST_LOCAL_NAME",
    doc: "The plugin's name; volumes are known by it.",
    pattern: /^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$/,
    hint: "has to be a domain name in lower case, 63 characters at most",
    default: "local.holdfast.dev",
  }),
  types,
  defaultType: optional(
    enumSetting({
      env: "HOLDFAST_LOCAL_DEFAULT_TYPE",
      doc: "Of a volume whose parameters name none. When not set: image where it is on offer.",
      values: volumeTypes,
    }),
  ),
  defaultFsType: enumSetting({
    env: "HOLDFAST_LOCAL_DEFAULT_FS",
    doc: "Filesystem of an image of which none is asked.",
    values: fsTypes,
    default: "ext4",
  }),
  defaultSize,
  attach: boolSetting({
    env: "HOLDFAST_LOCAL_ATTACH",
    doc: "Offer ControllerPublishVolume, which keeps book of attachments and nothing else.",
    default: false,
  }),
  maxVolumes: intSetting({
    env: "HOLDFAST_LOCAL_MAX_VOLUMES",
    doc: "Most volumes attached to this node; 0 is no limit.",
    min: 0,
    max: 1_000_000,
    default: 0,
  }),
  adminListen: optional(
    tcpAddressSetting({
      env: "HOLDFAST_ADMIN_LISTEN",
      doc: "Loopback address of /metrics, /healthz and /readyz; none without it.",
    }),
  ),
  stopGrace: durationSetting({
    env: "HOLDFAST_STOP_GRACE",
    doc: "How long calls may go on when the driver stops.",
    min: 0,
    max: 600_000,
    default: 10_000,
  }),
  ...seen,
});

export type DriverConfig = ConfigOf<typeof configSchema>;

/** What the settings mean on this machine; what cannot be is told at once, like every other mistake. */
export const toDriverSettings = (
  config: DriverConfig,
  machine: {
    /** Why loop devices cannot be made here; undefined when they can. */ readonly noLoops: string | undefined;
  },
): DriverSettings => {
  const wrong: FieldViolation[] = [];
  const asked = config.types?.flatMap((type) => volumeTypes.filter((known) => known === type));
  const offered = asked ?? (machine.noLoops === undefined ? volumeTypes : ["directory"]);
  if (offered.includes("image") && machine.noLoops !== undefined)
    wrong.push({ field: "HOLDFAST_LOCAL_TYPES", description: `names image, and ${machine.noLoops}` });
  const defaultType = config.defaultType ?? (offered.includes("image") ? "image" : "directory");
  if (!offered.includes(defaultType))
    wrong.push({
      field: "HOLDFAST_LOCAL_DEFAULT_TYPE",
      description: `= ${defaultType} is not on offer; the types are ${offered.join(", ")}`,
    });
  const defaultBytes = bytesOf(config.defaultSize);
  if (offered.includes("image") && defaultBytes < smallest[config.defaultFsType])
    wrong.push({
      field: "HOLDFAST_LOCAL_DEFAULT_SIZE",
      description: `= ${config.defaultSize} is too small for ${config.defaultFsType}, which takes ${smallest[config.defaultFsType]} bytes`,
    });
  if (wrong.length > 0) throw new ConfigError(wrong);
  return {
    name: config.name,
    version: holdfastVersion,
    nodeId: config.nodeId,
    topologyKey: `${config.name}/node`,
    defaultType,
    types: offered,
    defaultFsType: config.defaultFsType,
    defaultBytes,
    attach: config.attach,
    maxVolumesPerNode: config.maxVolumes,
  };
};
