/** What a program of this host means by its options and a named template → the volume that is asked for. Every violation is told at once. */
import { type AccessMode, accessModes } from "@holdfast/model/access";
import { isId } from "@holdfast/model/id";
import { parseSize } from "@holdfast/model/size";

export interface WantedVolume {
  readonly id: string;
  readonly plugin: string;
  readonly requiredBytes: bigint;
  readonly limitBytes: bigint;
  /** Absent: the best that the plugin serves. */
  readonly accessMode?: AccessMode;
  readonly fsType: string;
  readonly mountFlags: readonly string[];
  readonly parameters: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
  readonly reclaim: "retain" | "delete";
  /** False: with the first mount, for the node of that. */
  readonly atOnce: boolean;
  /** One that is there is made as big as this. */
  readonly grow?: true;
}

export type VolumeOptions = Readonly<Record<string, string>>;
/** By name: options, in the same words. */
export type VolumeTemplates = Readonly<Record<string, VolumeOptions>>;

export interface OptionFault {
  readonly field: string;
  readonly description: string;
}

/** Where neither a template nor a plugin is named. */
export const defaultTemplate = "default";

const words = ["plugin", "size", "limit", "fs", "mode", "flags", "reclaim", "create"] as const;
type Word = (typeof words)[number];
const prefixes = ["param.", "label."] as const;

const modeWord = (mode: AccessMode): string => mode.toLowerCase().replaceAll("_", "-");
const modesByWord = new Map(accessModes.filter((mode) => mode !== "UNKNOWN").map((mode) => [modeWord(mode), mode]));

/** By what its option says; undefined: nothing of the kind. */
const oneOf = <T>(choices: ReadonlyMap<string, T>, text: string | undefined): T | undefined =>
  text === undefined ? undefined : choices.get(text);

const reclaims = new Map([
  ["retain", "retain" as const],
  ["delete", "delete" as const],
]);
const moments = new Map([
  ["now", true],
  ["first-mount", false],
]);

const known = (option: string): boolean =>
  (words as readonly string[]).includes(option) ||
  prefixes.some((prefix) => option.startsWith(prefix) && option.length > prefix.length);

const below = (options: VolumeOptions, prefix: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(options).flatMap(([key, value]) =>
      key.startsWith(prefix) ? [[key.slice(prefix.length), value]] : [],
    ),
  );

/** What is wrong with options, wherever they stand. */
export const optionFaults = (options: VolumeOptions): readonly OptionFault[] => {
  const faults: OptionFault[] = [];
  const fault = (field: string, description: string): void => void faults.push({ field, description });
  const choice = (word: Word, choices: ReadonlyMap<string, unknown>): void => {
    const text = options[word];
    if (text !== undefined && !choices.has(text)) fault(word, `has to be one of ${[...choices.keys()].join(", ")}`);
  };
  for (const option of Object.keys(options))
    if (!known(option))
      fault(option, `is no option; there are ${[...words, "template", "param.*", "label.*"].join(", ")}`);
  for (const word of ["size", "limit"] as const)
    if (options[word] !== undefined && parseSize(options[word]) === undefined)
      fault(word, "has to be a size, such as 10GiB or 500MB");
  choice("mode", modesByWord);
  choice("reclaim", reclaims);
  choice("create", moments);
  return faults;
};

export const wantedVolume = (
  name: string,
  asked: VolumeOptions,
  templates: VolumeTemplates,
): { readonly volume: WantedVolume } | { readonly faults: readonly OptionFault[] } => {
  const { template: named, ...own } = asked;
  const faults: OptionFault[] = [];
  if (!isId(name))
    faults.push({
      field: "Name",
      description: "has to be 1 to 64 of a-z, 0-9, '.', '_', '-', without capital letters",
    });
  const byDefault =
    own["plugin"] === undefined && Object.hasOwn(templates, defaultTemplate) ? defaultTemplate : undefined;
  const from = named ?? byDefault;
  const template = from !== undefined && Object.hasOwn(templates, from) ? templates[from] : undefined;
  if (named !== undefined && template === undefined) {
    const there = Object.keys(templates).join(", ") || "none";
    faults.push({ field: "template", description: `is not in HOLDFAST_DOCKER_TEMPLATES; there are: ${there}` });
  }
  const options = { ...template, ...own };
  faults.push(...optionFaults(options));
  const {
    plugin,
    size = "0",
    limit = "0",
    fs = "",
    mode,
    flags = "",
    reclaim,
    create,
  } = options as VolumeOptions & Partial<Record<Word, string>>;
  if (plugin === undefined)
    faults.push({
      field: "plugin",
      description: `is required: which plugin makes the volume; or a template, or a template named ${defaultTemplate}`,
    });
  if (plugin === undefined || faults.length > 0) return { faults };
  const accessMode = oneOf(modesByWord, mode);
  const volume: WantedVolume = {
    id: name,
    plugin,
    requiredBytes: parseSize(size) ?? 0n,
    limitBytes: parseSize(limit) ?? 0n,
    fsType: fs,
    mountFlags: flags === "" ? [] : flags.split(","),
    parameters: below(options, "param."),
    labels: below(options, "label."),
    // What operators have described is theirs to delete, unless they said otherwise.
    reclaim: oneOf(reclaims, reclaim) ?? (template === undefined ? "delete" : "retain"),
    atOnce: oneOf(moments, create) ?? false,
  };
  return { volume: accessMode === undefined ? volume : { ...volume, accessMode } };
};
