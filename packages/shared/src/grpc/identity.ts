/** Who calls; handlers only ever read `context.identity`. Here from metadata, where there is no TLS; from a certificate in certificate-identity.ts. */
import { type CallContext, Metadata } from "nice-grpc-common";
import { HoldfastError } from "../errors/holdfast-error.ts";

export const roles = ["node", "scheduler", "operator", "controller", "monitor", "local", "anonymous"] as const;

export interface Identity {
  readonly role: (typeof roles)[number];
  readonly name: string;
  /** What the role and the name were read from; absent where nothing proves them. */
  readonly certificate?: CallerCertificate;
}

export interface CallerCertificate {
  readonly trustDomain: string;
  /** In hexadecimal digits, as Node and openssl show it. */
  readonly serial: string;
  readonly notBefore: number;
  readonly notAfter: number;
  /** SHA-256 of its DER, in hexadecimal digits. */
  readonly fingerprint: string;
}

export interface IdentityContext {
  readonly identity: Identity;
}

/** Throws a HoldfastError when what the caller says of itself makes no sense. */
export type IdentityReader = (call: Pick<CallContext, "metadata" | "peer">) => Identity;

export const identityHeader = "x-holdfast-identity";

const namePattern = /^[A-Za-z0-9]([A-Za-z0-9._:-]{0,126}[A-Za-z0-9])?$/;

export const anonymous: Identity = { role: "anonymous", name: "" };
/** Whoever may open a unix socket. */
export const localIdentity: Identity = { role: "local", name: "" };

export function formatIdentity({ role, name }: Identity): string {
  return name === "" ? role : `${role}/${name}`;
}

/** `role/name`; the name may be missing for roles that there is one of. */
export function parseIdentity(text: string): Identity | undefined {
  const slash = text.indexOf("/");
  const name = slash === -1 ? "" : text.slice(slash + 1);
  const role = roles.find((known) => known === (slash === -1 ? text : text.slice(0, slash)));
  if (role === undefined || (slash !== -1 && !namePattern.test(name))) return undefined;
  return { role, name };
}

export const identityFromMetadata: IdentityReader = ({ metadata }) => {
  const text = metadata.get(identityHeader);
  if (text === undefined) return anonymous;
  const identity = parseIdentity(text);
  if (identity !== undefined) return identity;
  throw new HoldfastError({
    kind: "unauthenticated",
    reason: "IDENTITY_MALFORMED",
    message: `${identityHeader} has to be role/name with one of the roles ${roles.join(", ")}`,
  });
};

/** For servers that only local programs can reach: whoever may open the socket is `local` unless it says more. */
export const identityOfLocalSocket: IdentityReader = (call) =>
  call.metadata.has(identityHeader) ? identityFromMetadata(call) : localIdentity;

/** A copy of the metadata (or new) that carries the identity. */
export function withIdentity(metadata: Metadata | undefined, identity: Identity): Metadata {
  return Metadata(metadata).set(identityHeader, formatIdentity(identity));
}
