/** What a fencer is asked, and what it answers. */

/** The life of a node that a fencer is asked about. */
export interface FencerAsk {
  readonly node: string;
  readonly machineId: string;
  readonly bootId: string;
  readonly nodeEpoch: number;
}

export type FencerAnswer =
  | { readonly kind: "fenced"; readonly evidence: string }
  | { readonly kind: "failed"; readonly why: string };
