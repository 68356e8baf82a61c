import { capabilityProblems, usableOf } from "../domain/capability-problems.ts";
import { DriverError } from "../domain/driver-error.ts";
import type { Attachment } from "../domain/records.ts";
import type { VolumeOperations } from "../operations.ts";
import type { ControllerParts } from "./controller-parts.ts";
import { knownVolume } from "./known-volume.ts";

/** Book-keeping alone: the volume is on this node all the time. */
export function createAttachments({
  host,
  settings,
}: Pick<ControllerParts, "host" | "settings">): Pick<VolumeOperations, "attach" | "detach"> {
  /** Being written: they count against the limit before they are in their records. */
  const attaching = new Set<string>();

  const refuseFull = (): void => {
    const limit = settings.maxVolumesPerNode;
    if (limit === 0) return;
    const taken = new Set(attaching);
    for (const volume of host.state.volumes.all()) if (volume.attachments.length > 0) taken.add(volume.id);
    if (taken.size >= limit)
      throw new DriverError(
        "RESOURCE_EXHAUSTED",
        `node ${settings.nodeId} has ${taken.size} volumes attached, and HOLDFAST_LOCAL_MAX_VOLUMES is ${limit}; detach one first`,
      );
  };

  return {
    attach: async (id, { nodeId, capability, readonly }) => {
      const volume = knownVolume(host, id);
      if (nodeId !== settings.nodeId)
        throw new DriverError("NOT_FOUND", `there is no node ${nodeId}; this driver has ${settings.nodeId} alone`);
      const problems = capabilityProblems(capability, usableOf(volume));
      if (problems.length > 0) throw new DriverError("INVALID_ARGUMENT", problems.join("; "));

      const wanted: Attachment = { nodeId, readonly, access: capability.access, mode: capability.mode };
      const present = volume.attachments.find((each) => each.nodeId === nodeId);
      if (present !== undefined) {
        if (same(present, wanted)) return;
        throw new DriverError(
          "ALREADY_EXISTS",
          `it is attached to node ${nodeId} as ${said(present)}, and not as ${said(wanted)}; call ControllerUnpublishVolume first`,
        );
      }
      refuseFull();
      attaching.add(id);
      try {
        await host.state.volumes.change(id, (record) => ({ ...record, attachments: [...record.attachments, wanted] }));
      } finally {
        attaching.delete(id);
      }
    },
    detach: async (id, nodeId) => {
      // Only what is attached nowhere is ever deleted: of a volume that is gone we can vouch that it is detached.
      const volume = host.state.volumes.get(id);
      const leaves = (each: Attachment) => nodeId === "" || each.nodeId === nodeId;
      if (volume === undefined || !volume.attachments.some(leaves)) return;
      await host.state.volumes.change(id, (record) => ({
        ...record,
        attachments: record.attachments.filter((each) => !leaves(each)),
      }));
    },
  };
}

const same = (a: Attachment, b: Attachment): boolean =>
  a.readonly === b.readonly && a.access === b.access && a.mode === b.mode;

const said = ({ access, mode, readonly }: Attachment): string => `${access} ${mode}${readonly ? " read-only" : ""}`;
