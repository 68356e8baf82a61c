/** A token with which one host becomes a node, once. The token itself is in no record: its hash names the record. */
export interface NodeToken {
  readonly hash: string;
  readonly node: string;
  readonly createdAt: number;
  /** It is refused from this moment on. */
  readonly endsAt: number;
  readonly createdBy: string;
  readonly usedAt?: number;
}

export const maxTokenMs = 15 * 60_000;

/** So long after its end a token is known, so that its bearer is told why it is refused. */
export const rememberedMs = 3_600_000;

export type TokenRefusal = "unknown" | "used" | "ended" | "other-node" | "fenced";

/** What the record of the node says of a fence; undefined: it has none. */
export interface FencedSince {
  readonly since: number;
}

/** A token that was made before the fence is no word about the node after it. */
export const judgeToken = (
  token: NodeToken | undefined,
  asked: { readonly node: string; readonly fence: FencedSince | undefined; readonly now: number },
): TokenRefusal | undefined => {
  if (token === undefined) return "unknown";
  if (token.usedAt !== undefined) return "used";
  if (asked.now >= token.endsAt) return "ended";
  if (asked.node !== "" && asked.node !== token.node) return "other-node";
  if (asked.fence !== undefined && asked.fence.since >= token.createdAt) return "fenced";
  return undefined;
};
