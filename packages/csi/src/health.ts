/**
 * What the health calls of CSI 1.13 answer, in words of the model. Replies are valid here: status and reason are set. Texts
 * lose the values of `secrets`, with which the question was asked.
 */
import { accessModes } from "@holdfast/model/access";
import {
  type StorageHealthEntry,
  storageHealthStatus,
  type VolumeHealthEntry,
  volumeHealthStatus,
  withoutRepeats,
} from "@holdfast/model/health";
import { VolumeCapability_AccessMode_Mode as CsiMode, type VolumeHealth } from "@holdfast/shared/gen/csi/v1/csi";
import type { ResponseOf } from "./messages.ts";
import { cleanPluginText } from "./plugin-text.ts";

type Secrets = Readonly<Record<string, string>>;

const cleaned = ({ reason, message }: { readonly reason: string; readonly message: string }, secrets: Secrets) => {
  const sensitive = Object.values(secrets);
  return {
    reason: cleanPluginText(reason, sensitive),
    message: message === "" ? "" : cleanPluginText(message, sensitive),
  };
};

export function volumeHealthEntries(
  { healthStatuses }: Pick<VolumeHealth, "healthStatuses">,
  secrets: Secrets = {},
): VolumeHealthEntry[] {
  const entries = healthStatuses.map((said) => ({
    status: volumeHealthStatus(said.status),
    ...cleaned(said, secrets),
  }));
  return withoutRepeats(entries, ({ status, reason }) => [status, reason]);
}

export function storageHealthEntries(
  { backendHealth }: ResponseOf<"NodeGetStorageHealth">,
  secrets: Secrets = {},
): StorageHealthEntry[] {
  const entries = backendHealth.map((said): StorageHealthEntry => {
    const { block, mount, accessMode } = said.volumeCapability ?? {};
    const mode = accessMode?.mode ?? 0;
    const named = accessModes.find((word) => CsiMode[word] === mode);
    return {
      status: storageHealthStatus(said.status),
      ...cleaned(said, secrets),
      ...(block !== undefined && { attachmentMode: "BLOCK_DEVICE" }),
      ...(mount !== undefined && { attachmentMode: "FILE_SYSTEM" }),
      ...((mount?.fsType ?? "") !== "" && { fsType: mount?.fsType ?? "" }),
      ...(mode !== 0 && { accessMode: named ?? `UNRECOGNISED(${mode})` }),
    };
  });
  return withoutRepeats(entries, ({ message: _, ...said }) => [
    said.status,
    said.reason,
    said.attachmentMode,
    said.fsType,
    said.accessMode,
  ]);
}
