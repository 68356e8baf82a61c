import type { AccessUse } from "@holdfast/model/access";
import { type Epoch, oldestEpoch } from "@holdfast/model/epoch";
import type { VolumeHealthEntry } from "@holdfast/model/health";
import type { AgentBlock } from "../blocked.ts";
import type { Ending } from "../outcome.ts";
import type { Growth } from "../size/expansion.ts";
import { growthOwedTo } from "../size/growth.ts";
import type { GrowAnswer } from "../size/growth-change.ts";
import type { Attachment, VolumeRecord } from "../volume/volume.ts";
import type { Claim, Publication } from "./claim.ts";
import { permitLives } from "./claim-machine.ts";

/** The one-use order that lets an agent stage and publish a claim. Secrets are added at the edge, per call. */
export interface Permit {
  readonly volume: VolumeRecord;
  readonly claim: Claim;
  readonly attachment: Attachment;
  readonly nodeEpoch: number;
  readonly epoch: Epoch;
  /** Grants of this volume on this node below it are over: the agent refuses them from now on. */
  readonly oldestLiveEpoch: Epoch;
  /** The node has to grow the volume once it is published: W36, a volume that was grown while nobody used it. */
  readonly expandTo?: { readonly required: number; readonly limit: number };
}

export type PublishAnswer =
  | {
      readonly kind: "published";
      readonly publication: Publication;
      /** Of a block device; absent: the agent does not say. */
      readonly deviceBytes?: number;
      /** What has become of the growth that the permit brought along. */
      readonly growth?: GrowAnswer;
    }
  | ({ readonly kind: "not-mounted" } & Ending & AskedHealth)
  | { readonly kind: "refused"; readonly reason: string; readonly message: string }
  | ({
      readonly kind: "uncertain";
      /** Repeating alone will not help. */
      readonly blocked?: AgentBlock;
    } & Ending &
      AskedHealth);

/** What the plugin says of the volume there; absent: it was not asked, or did not answer. */
interface AskedHealth {
  readonly health?: readonly VolumeHealthEntry[];
}

export type ReleaseAnswer =
  /** `unmounted`: mounts that the agent took away itself, since the plugin had left them. */
  | { readonly kind: "released"; readonly unmounted?: readonly string[] }
  | ({
      readonly kind: "pending";
      readonly blocked: boolean;
      /** Absent: an agent of an earlier version, which names no cure. */
      readonly block?: AgentBlock;
    } & Ending)
  | { readonly kind: "refused"; readonly reason: string; readonly message: string };

const ofAnotherTime: ReadonlySet<string> = new Set(["GENERATION", "NODE_EPOCH", "QUARANTINED"]);

/**
 * Why an agent refused an order before it looked at the claim: the order was made before the store was vetted, or the node registered or
 * was fenced since, or the store has lost that. What the claim has there may be mounted, so that the order is repeated as things are by then.
 */
export const isOfAnotherTime = (refusal: string): boolean => ofAnotherTime.has(refusal);

/** What the journal of an agent has of a permit beside its name: what the record of the claim said. */
export interface JournalledPermit extends AccessUse {
  readonly fsType: string;
  readonly nodeEpoch: number;
  /** The path on the host. */
  readonly target: string;
  readonly mountId: number;
  /** Its release has begun, whatever its state is. */
  readonly releasing: boolean;
}

/** What one agent holds, from its journal and mount table. */
export interface Inventory {
  readonly node: string;
  readonly journalUid: string;
  readonly nodeEpoch: number;
  /** No permit of a lower generation is honoured; absent = none was promised. */
  readonly promisedGen?: number;
  readonly volumes: readonly {
    readonly namespace: string;
    readonly volume: string;
    readonly volumeUid: string;
    readonly externalId: string;
    readonly plugin: string;
    /** No permit up to it is honoured; absent = there is none. */
    readonly floor?: Epoch;
    readonly held: readonly {
      readonly claimUid: string;
      readonly workload: string;
      readonly alias: string;
      readonly epoch: Epoch;
      readonly state: string;
      /** Absent: an agent of an earlier version, or what is only remembered as released. */
      readonly permit?: JournalledPermit;
    }[];
    readonly blocked?: string;
  }[];
  readonly orphans: readonly string[];
}

/** The order for a claim as the record stands, or undefined when it has no grant or its attachment is not done. */
export const permitFor = (volume: VolumeRecord, claim: Claim, nodeEpoch: number): Permit | undefined => {
  const attachment = volume.attachments[claim.node];
  if (claim.epoch === undefined || attachment?.state !== "ATTACHED") return undefined;
  const live = Object.values(volume.claims).flatMap((c) =>
    c.node === claim.node && permitLives[c.state] && c.epoch !== undefined ? [c.epoch] : [],
  );
  const growth = growthOwedTo(volume, claim.node);
  return {
    ...(growth === undefined ? {} : { expandTo: { required: growth.bytes, limit: limitOf(growth) } }),
    volume,
    claim,
    attachment,
    nodeEpoch,
    epoch: claim.epoch,
    oldestLiveEpoch: oldestEpoch(live) ?? claim.epoch,
  };
};

/** What nodes are asked for. A backend that went beyond the limit is not gone back from. */
export const limitOf = ({ bytes, limit }: Pick<Growth, "bytes" | "limit">): number => (limit < bytes ? 0 : limit);
