import type { CallUnderWay } from "../call-under-way.ts";
import type { Claim } from "../claim/claim.ts";
import type { LastError } from "../outcome.ts";
import type { VolumeRecord } from "./volume.ts";

/** The call that the claim waits for: of its node's plugin, or of the controller for the pair. */
export const callOfClaim = ({ intent }: VolumeRecord, { node, call }: Claim): CallUnderWay | undefined =>
  call ?? (intent?.node === node ? intent.call : undefined);

/** Every call of the volume that has lasted for a while, with the node that it is made on or for. */
export const callsOfVolume = (
  volume: VolumeRecord,
): readonly { readonly node: string; readonly call: CallUnderWay; readonly last: LastError | undefined }[] => {
  const { intent, attempts } = volume;
  const node = intent?.node ?? "";
  const waiting = Object.values(volume.claims).find((claim) => claim.node === node);
  return [
    ...(intent?.call === undefined
      ? []
      : [{ node, call: intent.call, last: (node === "" ? attempts : waiting?.attempts)?.lastError }]),
    ...Object.values(volume.claims).flatMap((claim) =>
      claim.call === undefined ? [] : [{ node: claim.node, call: claim.call, last: claim.attempts.lastError }],
    ),
  ];
};
