/**
 * After a publication: has the mount what it has to have? A plugin is free to ignore the options that it is given, and many
 * do; what it left out is added to the mount at the target alone, by a child that may be killed.
 */

import type { MountLine } from "@holdfast/model/mountinfo";
import type { Logger } from "@holdfast/shared/log/logger";
import { forbiddenOptions, missingOptions, readsOnly, remountOptions } from "../domain/mount-options.ts";
import { type MountView, seenAt } from "../domain/mounts.ts";
import type { MountFailure, PermitFacts, VolumeRef } from "../domain/types.ts";
import type { HostDirs, KillableChildren, MountTable, PermitOrder } from "../ports.ts";
import { namesOf } from "./order-facts.ts";

/** The line as it is in the end, or why the publication has to be undone. */
export type SecureMount = (
  ref: VolumeRef,
  facts: PermitFacts,
  seen: { readonly view: MountView; readonly line: MountLine },
) => Promise<Secured>;

export type Secured =
  | { readonly kind: "secure"; readonly view: MountView; readonly line: MountLine }
  | { readonly kind: "insecure"; readonly failure: MountFailure; readonly message: string };

export interface SecureMountOptions {
  readonly mounts: Pick<MountTable, "look">;
  readonly dirs: Pick<HostDirs, "deviceReadOnly">;
  readonly children: KillableChildren;
  readonly forced: readonly string[];
}

export function createSecureMount({ mounts, dirs, children, forced }: SecureMountOptions): SecureMount {
  const remounted = async (ref: VolumeRef, line: MountLine, missing: readonly string[]): Promise<string> => {
    // With a source, any, mount(8) asks neither fstab nor the mount table what it was told: of ten thousand lines that took 20 ms.
    const args = ["--no-canonicalize", "-o", remountOptions(line, missing), "none", line.path];
    const end = await children.run(ref.volumeUid, "mount", args);
    return end.kind === "hung" ? "mount(8) did not end in time" : end.said;
  };

  return async (ref, facts, { view, line }) => {
    if (facts.attachmentMode === "BLOCK_DEVICE") {
      const open = readsOnly(facts) && (await isWritable(dirs, line));
      return open
        ? insecure("READ_ONLY_MISSING", "the device can be written to, and the claim only reads")
        : { kind: "secure", view, line };
    }
    const missing = missingOptions(line, facts, forced);
    if (missing.length === 0) return { kind: "secure", view, line };
    const said = await remounted(ref, line, missing);
    const after = await mounts.look(false);
    const now = seenAt(after, facts.target);
    const left = now === undefined ? missing : missingOptions(now, facts, forced);
    if (now !== undefined && left.length === 0) return { kind: "secure", view: after, line: now };
    const reason = left.includes("ro") ? "READ_ONLY_MISSING" : "MOUNT_OPTIONS_MISSING";
    return insecure(
      reason,
      `the mount at ${facts.target} has no ${left.join(", ")}, and got none${said && `: ${said}`}`,
    );
  };
}

/** A bind of a device node shows where the node is; a device whose state nobody can tell is taken as it is. */
async function isWritable(dirs: Pick<HostDirs, "deviceReadOnly">, line: MountLine): Promise<boolean> {
  if (line.fsType !== "devtmpfs") return false;
  return (await dirs.deviceReadOnly(`/dev${line.root}`)) === false;
}

const insecure = (reason: string, message: string): Secured => ({
  kind: "insecure",
  failure: { reason, method: "NodePublishVolume", code: "OK" },
  message,
});

/** O1: journalled and ended like what a plugin refuses, so that the claim ends too and nobody sends it for ever. */
export function optionFailure(
  { ref, claim, contents }: PermitOrder,
  allowed: readonly string[],
  log: Logger,
): MountFailure | undefined {
  const names = forbiddenOptions(contents.mountFlags, allowed);
  if (names.length === 0) return undefined;
  log.warn("a mount option is not allowed here", { ...namesOf(ref), claim: claim.claimUid, options: names });
  return { reason: "MOUNT_OPTION_FORBIDDEN", method: "", code: "" };
}
