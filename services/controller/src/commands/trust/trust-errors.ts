/** The errors of certificates, with the reason and metadata of docs/errors.md. */
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { TokenRefusal } from "../../domain/trust/node-token.ts";

export const enrolmentOff = (why: string, cure: string): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "ENROLMENT_OFF",
    message: `this controller issues no certificates: ${why}; ${cure}`,
  });

const words: Readonly<Record<TokenRefusal, string>> = {
  unknown: "it is not known, or ended more than an hour ago",
  used: "it was used before: if the host that has its node's certificate is not this one, revoke the node",
  ended: "its time is over by the clock of this controller",
  "other-node":
    "it is of another node than the one that this host wants to be: correct HOLDFAST_NODE, or have a token for it",
  fenced: "it was made before its node was fenced",
};

/** The token is in no message: messages are logged. */
export const tokenRefused = (refusal: TokenRefusal, node: string): HoldfastError =>
  new HoldfastError({
    kind: "permission",
    reason: "TOKEN_REFUSED",
    message: `the token is refused: ${words[refusal]}. Another one: holdfast node token ${node === "" ? "<node>" : node}`,
    metadata: { why: refusal, ...(node === "" ? {} : { node }) },
  });

export const renewalRefused = (why: string, cure: string, node = ""): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "RENEWAL_REFUSED",
    message: `the certificate is not renewed: ${why}; ${cure}`,
    metadata: node === "" ? {} : { node },
  });

export const fencedNodeRenews = (node: string, state: string): HoldfastError =>
  renewalRefused(
    `node ${node} is ${state}`,
    `it is renewed once the node is READY again (holdfast node status ${node}). If it ends before that: holdfast node token ${node}`,
    node,
  );

export const trustNeedsUpgrade = (format: number, needed: number): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "UPGRADE_UNFINISHED",
    message: `no token is made and no certificate is denied: the store has format ${format}, so that a controller of an earlier release may read it, which knows of neither; end the upgrade first: holdfast upgrade finish`,
    metadata: { format: String(format), needed: String(needed) },
  });
