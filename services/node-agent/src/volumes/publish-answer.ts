/** From the end of a run to the answer of the permit. */
import type { ExpandResult, PublishResult } from "../domain/answer-types.ts";
import type { Refusal } from "../domain/judge-order.ts";
import type { PermitFacts, VolumeRef, VolumeState } from "../domain/types.ts";
import type { ExpandOrder } from "../domain/volume-figures.ts";
import type { HostDirs, PermitContents } from "../ports.ts";
import { nameVolume } from "./halts.ts";
import { publishedDevice } from "./published-device.ts";
import type { MountEnd } from "./volume-drive.ts";

export interface AnswerTools {
  readonly dirs: Pick<HostDirs, "deviceNumber" | "deviceBytes">;
  readonly expand: (order: ExpandOrder) => Promise<ExpandResult>;
}

export async function publishAnswer(
  end: MountEnd,
  facts: PermitFacts,
  contents: PermitContents,
  ref: VolumeRef,
  { dirs, expand }: AnswerTools,
): Promise<PublishResult> {
  switch (end.kind) {
    case "halted":
      return { kind: "uncertain", halt: end.halt };
    case "ended":
      return { kind: "not-mounted", failure: end.failure, message: end.message, epoch: facts.epoch };
    case "published": {
      const { line } = end;
      const { expandTo: capacity, expandSecrets: secrets = {} } = contents;
      // "NodeExpandVolume MAY be called before or after NodePublishVolume", and after it where nothing is staged.
      const grown =
        capacity === undefined
          ? {}
          : {
              expansion: await expand({
                ref,
                nodeEpoch: facts.nodeEpoch,
                capacity,
                usedAs: { ...facts, ...contents },
                secrets,
              }),
            };
      const { target: hostPath, epoch } = facts;
      const device = await publishedDevice(line, dirs);
      // After the growth, if there was one: before it the device is smaller by right.
      const sizeBytes = device && (await dirs.deviceBytes(device));
      const seen = device && { device: sizeBytes === undefined ? device : { ...device, sizeBytes } };
      return { kind: "published", hostPath, mountId: line.id, epoch, ...seen, ...grown };
    }
  }
}

export function heldByOther(other: VolumeState | undefined, ref: VolumeRef): Refusal {
  const [holder] = Object.keys(other?.claims ?? {});
  const name = other === undefined ? "another volume" : nameVolume(other.ref);
  const message = `${nameVolume(ref)} is the same storage as ${name}, which is held here; release that first`;
  return {
    kind: "refused",
    reason: "ACCESS_CONFLICT",
    message,
    ...(holder === undefined ? {} : { holderClaimUid: holder }),
  };
}
