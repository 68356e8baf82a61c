/** What stands on a node while another life asks for its name. */
import { permitLives } from "../claim/claim-machine.ts";
import type { VolumeRecord } from "../volume/volume.ts";
import type { NodeRecord } from "./node.ts";

/** Claims of which the node may hold a permit. A hold that the store does not know stands like a claim. */
export const standingOn = ({ claims, foreign = [] }: Pick<VolumeRecord, "claims" | "foreign">, node: string): number =>
  Object.values(claims).filter((claim) => claim.node === node && permitLives[claim.state]).length +
  foreign.filter((hold) => hold.node === node).length;

/** `linked`: to this controller. As long as the record does not say otherwise, another one may have the link. */
export const mayBeAlive = (
  { forgottenAt, linkLost }: Pick<NodeRecord, "forgottenAt" | "linkLost">,
  linked: boolean,
): boolean => forgottenAt === undefined && (linked || linkLost === undefined);
