/** The request for a volume that is described by options in place of a file. */
import { AccessMode, AttachmentMode } from "@holdfast/shared/gen/holdfast/v1/common";
import type { Input, OptionSpec } from "../../frame/command.ts";
import { labelsOf, optionWords, sizeOf, usage } from "../option-words.ts";
import { accessModes } from "./volume-words.ts";

const withoutPlugin: readonly OptionSpec[] = [
  { flags: "--size <size>", help: "at least so large, such as 10GiB (default: as the plugin decides)" },
  { flags: "--fs <type>", help: "the file system, such as ext4 or xfs (default: as the plugin decides)" },
  { flags: "--block", help: "a block device without a file system" },
  {
    flags: "--mode <mode>",
    help: "who may use it at once; may be repeated (default single-node-writer)",
    many: true,
    completes: accessModes.words,
  },
  { flags: "--parameter <key=value>", help: "the plugin's own; may be repeated", many: true },
];

export const newVolumeOptions: readonly OptionSpec[] = [
  { flags: "--plugin <plugin>", help: "the CSI plugin that makes it", completes: "plugin" },
  ...withoutPlugin,
];

/** Those that only --plugin gives a meaning. */
export const newVolumeOptionsGiven = (input: Input): readonly string[] =>
  withoutPlugin
    .map(({ flags }) => flags.split(" ")[0] ?? "")
    .filter((flag) => {
      const name = flag.slice(2);
      return input.text(name) !== undefined || input.list(name).length > 0 || input.flag(name);
    });

export interface NamedVolume {
  readonly namespace: string;
  readonly id: string;
  readonly plugin: string;
}

export const newVolumeRequest = (named: NamedVolume, input: Input) => {
  const block = input.flag("block");
  const fsType = input.text("fs") ?? "";
  if (block && fsType !== "") throw usage("--block and --fs: a block device has no file system; give one of the two");
  const given = optionWords("--mode", accessModes, input.list("mode"));
  const modes = given.length === 0 ? [AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER] : given;
  const attachmentMode = block
    ? AttachmentMode.ATTACHMENT_MODE_BLOCK_DEVICE
    : AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM;
  return {
    ...named,
    capacity: { requiredBytes: sizeOf("--size", input.text("size")) },
    capabilities: modes.map((accessMode) => ({ attachmentMode, accessMode, fsType })),
    parameters: labelsOf("--parameter", input.list("parameter")),
  };
};
