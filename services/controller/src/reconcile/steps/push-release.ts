/** The order to let go of a claim on its way to the agent of its node. */
import type { Vetting } from "@holdfast/model/vetting";
import type { Claim } from "../../domain/claim/claim.ts";
import type { ReleaseAnswer } from "../../domain/claim/permit.ts";
import type { NodeRecord } from "../../domain/node/node.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import { failureOf } from "../owed/under-intent.ts";
import type { StepDeps } from "./step-run.ts";

type Epoch = NonNullable<Claim["epoch"]>;

export const pushRelease = (
  { agents, signal }: Pick<StepDeps, "agents" | "signal">,
  { namespace, id: volume, uid: volumeUid, externalId, plugin }: VolumeRecord,
  { uid: claimUid, epoch, attempts }: Claim & { readonly epoch: Epoch },
  node: NodeRecord,
  vetting: Vetting,
): Promise<ReleaseAnswer> => {
  const { nodeEpoch } = node;
  const order = { namespace, volume, volumeUid, externalId, plugin, claimUid, nodeEpoch, epoch };
  return agents
    .release(node, order, { signal, vetting, attempt: attempts.count + 1 })
    .catch((error: unknown): ReleaseAnswer => ({ kind: "pending", blocked: false, ...failureOf(error) }));
};
