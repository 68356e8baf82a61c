import type { Method } from "../rpc.ts";
import { attachmentEffects } from "./attachments.ts";
import { capabilityListEffects } from "./capability-lists.ts";
import type { Effects } from "./effect.ts";
import { identityEffects } from "./identity.ts";
import { listingEffects } from "./listings.ts";
import { metadataEffects } from "./metadata.ts";
import { nodeEffects } from "./node.ts";
import { snapshotEffects } from "./snapshots.ts";
import { volumeEffects } from "./volumes.ts";

/** Total over the RPCs of CSI: one that is missing does not compile. */
export const allEffects: Effects<Method> = {
  ...identityEffects,
  ...volumeEffects,
  ...attachmentEffects,
  ...listingEffects,
  ...snapshotEffects,
  ...metadataEffects,
  ...nodeEffects,
  ...capabilityListEffects,
};
