/**
 * What a plugin confirmed, against what it was asked. "The CO SHALL compare the fields of this message to the originally requested
 * capabilities in order to guard against an older plugin reporting 'valid' for newer capability fields that it does not yet
 * understand": so each field is compared by its content, and the first that differs is named. Values of maps and mount flags may be
 * secret to some drivers: their keys are named, they are not shown.
 */
import type { RequestInput, ResponseOf } from "@holdfast/csi/messages";
import { VolumeCapability_AccessMode_Mode as Mode } from "@holdfast/shared/gen/csi/v1/csi";

type Request = RequestInput<"ValidateVolumeCapabilities">;
type Asked = NonNullable<Request["volumeCapabilities"]>[number];
type Confirmed = NonNullable<ResponseOf<"ValidateVolumeCapabilities">["confirmed"]>;
type Has = Confirmed["volumeCapabilities"][number];

export interface Difference {
  readonly field: string;
  readonly wanted: string;
  readonly has: string;
}

const kindOf = (capability: Asked | Has): string =>
  capability.block === undefined ? (capability.mount === undefined ? "none" : "mount") : "block";

const modeOf = (capability: Asked | Has): string => {
  const mode = capability.accessMode?.mode ?? Mode.UNKNOWN;
  return Object.entries(Mode).find(([, number]) => number === mode)?.[0] ?? String(mode);
};

const missingFlags = (asked: Asked, has: Has): number => {
  const left = [...(has.mount?.mountFlags ?? [])];
  return (asked.mount?.mountFlags ?? []).filter((flag) => {
    const at = left.indexOf(flag);
    if (at >= 0) left.splice(at, 1);
    return at < 0;
  }).length;
};

interface Comparison {
  readonly field: string;
  readonly fits: (asked: Asked, has: Has) => boolean;
  readonly show: (capability: Asked | Has) => string;
}

/** In the order of weight. What was not asked for (a file system, a group) may be filled in by the plugin. */
const comparisons: readonly Comparison[] = [
  { field: "attachment_mode", fits: (a, h) => kindOf(a) === kindOf(h), show: kindOf },
  { field: "access_mode", fits: (a, h) => modeOf(a) === modeOf(h), show: modeOf },
  {
    field: "fs_type",
    fits: (a, h) => (a.mount?.fsType ?? "") === "" || a.mount?.fsType === h.mount?.fsType,
    show: (c) => c.mount?.fsType ?? "",
  },
  {
    field: "volume_mount_group",
    fits: (a, h) => (a.mount?.volumeMountGroup ?? "") === "" || a.mount?.volumeMountGroup === h.mount?.volumeMountGroup,
    show: (c) => c.mount?.volumeMountGroup ?? "",
  },
  {
    field: "mount_flags",
    fits: (a, h) => missingFlags(a, h) === 0,
    show: (c) => `${c.mount?.mountFlags?.length ?? 0} flags`,
  },
];

/** The first field that none of the confirmed capabilities has as it was asked for. */
const capabilityDifference = (asked: Asked, confirmed: readonly Has[], at: string): Difference | undefined => {
  let left = confirmed;
  for (const { field, fits, show } of comparisons) {
    const fitting = left.filter((has) => fits(asked, has));
    if (fitting.length === 0) {
      const has = [...new Set(left.map(show))].join(" or ");
      return { field: `${at}.${field}`, wanted: show(asked), has: has === "" ? "nothing" : has };
    }
    left = fitting;
  }
  return undefined;
};

type StringMap = Readonly<Record<string, string>>;

const mapDifference = (
  asked: StringMap,
  confirmed: StringMap,
  field: string,
  echoed: "required" | "optional",
): Difference | undefined => {
  // An optional field that the plugin left out says nothing about it.
  if (echoed === "optional" && Object.keys(confirmed).length === 0) return undefined;
  const key = [...new Set([...Object.keys(asked), ...Object.keys(confirmed)])].find((k) => asked[k] !== confirmed[k]);
  if (key === undefined) return undefined;
  const what = (map: StringMap): string => (map[key] === undefined ? "not there" : "another value");
  return {
    field: `${field}[${key.slice(0, 64)}]`,
    wanted: asked[key] === undefined ? "not there" : "the value asked for",
    has: what(confirmed),
  };
};

/**
 * undefined = everything that was asked is confirmed. mutable_parameters are younger than the call itself: a plugin that was sent some
 * and does not name them again has not understood them.
 */
export const confirmedDifference = (request: Request, confirmed: Confirmed): Difference | undefined => {
  const { volumeCapabilities = [], volumeContext = {}, parameters = {}, mutableParameters = {} } = request;
  for (const [i, asked] of volumeCapabilities.entries()) {
    const found = capabilityDifference(asked, confirmed.volumeCapabilities, `capabilities[${i}]`);
    if (found !== undefined) return found;
  }
  return (
    mapDifference(volumeContext as StringMap, confirmed.volumeContext, "context", "optional") ??
    mapDifference(parameters as StringMap, confirmed.parameters, "parameters", "optional") ??
    mapDifference(mutableParameters as StringMap, confirmed.mutableParameters, "mutable_parameters", "required")
  );
};
