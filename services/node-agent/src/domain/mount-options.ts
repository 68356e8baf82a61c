/**
 * Which options a mount may be asked for, and which it has to have. Pure: the names are policy, given by the settings.
 *
 * O1 An option that is not on the list is never handed to a plugin: some name credentials, owners or helper programs.
 * O2 A file system that a workload sees has the forced options, and is read-only when the claim only reads.
 */
import { accessRules } from "@holdfast/model/access";
import type { MountLine } from "@holdfast/model/mountinfo";
import type { PermitFacts } from "./types.ts";

/** Options without a value, and names whose value is free. What chooses an owner, a key or a program is not among them. */
export const defaultAllowedOptions: readonly string[] = [
  ...["ro", "rw", "nosuid", "nodev", "noexec", "sync", "dirsync", "discard", "nodiscard", "nouuid"],
  ...["noatime", "nodiratime", "relatime", "strictatime", "lazytime"],
  ...["hard", "soft", "intr", "nointr", "lock", "nolock", "tcp", "noresvport", "bg", "fg", "ac", "noac"],
  ...["vers=", "nfsvers=", "minorversion=", "proto=", "port=", "timeo=", "retrans=", "rsize=", "wsize=", "nconnect="],
  ...["acregmin=", "acregmax=", "acdirmin=", "acdirmax=", "actimeo=", "lookupcache=", "data=", "commit=", "errors="],
];

export const defaultForcedOptions: readonly string[] = ["nosuid", "nodev"];

/** The names of those that are not on the list; their values may be secrets and are told to nobody. O1 */
export const forbiddenOptions = (flags: readonly string[], allowed: readonly string[]): readonly string[] => {
  const known = new Set(allowed);
  return flags
    .flatMap((flag) => flag.split(","))
    .map((option) => {
      const at = option.indexOf("=");
      return at < 0 ? option : option.slice(0, at + 1);
    })
    .filter((name) => !known.has(name));
};

type Use = Pick<PermitFacts, "accessMode" | "attachmentMode" | "readOnly">;

export const readsOnly = ({ readOnly, accessMode }: Use): boolean =>
  readOnly || accessRules[accessMode].writers === "none";

/** What the mount at a target has to have and has not. A device node is none of it: "nodev" would close it. O2 */
export const missingOptions = (line: MountLine, use: Use, forced: readonly string[]): readonly string[] => {
  if (use.attachmentMode === "BLOCK_DEVICE") return [];
  const wanted = readsOnly(use) ? [...forced, "ro"] : forced;
  return wanted.filter((option) => !line.options.includes(option));
};

/** A remount sets all options of a mount anew: those that it has are said again. */
export const remountOptions = (line: MountLine, missing: readonly string[]): string => {
  const kept = line.options.filter((option) => option !== "rw" || !missing.includes("ro"));
  return ["remount", "bind", ...kept, ...missing].join(",");
};
