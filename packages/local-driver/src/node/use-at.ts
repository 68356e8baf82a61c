import type { Capability, VolumeRecord } from "../domain/records.ts";
import { publicationAt } from "./live-publications.ts";
import { type NodeParts, refusal } from "./node-parts.ts";

export interface UseAt {
  readonly kind: "staging" | "target";
  /** As the mount table spells it. */
  readonly path: string;
  readonly capability: Capability;
}

/** What the record says of this path. "Volume does not exist on the specified path: 5 NOT_FOUND" */
export async function useAt(parts: NodeParts, record: VolumeRecord, given: string): Promise<UseAt> {
  const { places } = parts.host;
  const path = await places.resolve(given);
  const publication = await publicationAt(parts, record, path);
  if (publication !== undefined) return { kind: "target", path, capability: publication.capability };
  const { staging } = record;
  if (staging !== undefined && (await places.resolve(staging.path)) === path)
    return { kind: "staging", path, capability: staging.capability };
  throw refusal(parts, record, "NOT_FOUND", `it is neither staged nor published at ${given}`);
}
