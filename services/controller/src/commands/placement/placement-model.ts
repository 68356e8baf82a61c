import type { Placement } from "../../domain/placement/placement.ts";
import type { ClaimSpec, Page, PageInput } from "../model.ts";

export interface CheckPlacementInput {
  readonly namespace: string;
  readonly workload: string;
  readonly claims: readonly ClaimSpec[];
  /** Empty = all. */
  readonly nodes: readonly string[];
  /** Workloads that would have released by then. */
  readonly after: readonly string[];
  readonly feasibleOnly: boolean;
}

export interface NodePlacement extends Placement {
  readonly placementClass: string;
}

export type CheckPlacement = (input: CheckPlacementInput, page: PageInput) => Promise<Page<NodePlacement>>;
