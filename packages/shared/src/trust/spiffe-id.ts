/** The name in a certificate: `spiffe://<trust domain>/csi/<role>/<name>`, and `spiffe://<trust domain>/csi/monitor`. */

/** Those that a certificate can give. */
export const certifiedRoles = ["controller", "node", "scheduler", "operator", "monitor"] as const;
export type CertifiedRole = (typeof certifiedRoles)[number];

export interface SpiffeId {
  readonly trustDomain: string;
  readonly role: CertifiedRole;
  /** Empty for roles that there is one of. */
  readonly name: string;
}

/** SPIFFE-ID 2.1 allows 255 bytes; a host name has as many. */
const trustDomain = /^[a-z0-9](?:[a-z0-9._-]{0,253}[a-z0-9])?$/;
/** Of the characters of SPIFFE-ID 2.2; no name begins or ends with a mark, so that none is `.` or `..`. */
const anyName = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$/;
const nodeName = /^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$/;

const named = { controller: anyName, node: nodeName, scheduler: anyName, operator: anyName, monitor: undefined };

/** No other character stands in an id: no percent sign, no user, port, query, control character or second script. */
const characters = /^spiffe:\/\/[A-Za-z0-9._/-]+$/;

const path = "csi";

/** Undefined for what is no name of ours. */
export function parseSpiffeId(text: string): SpiffeId | undefined {
  if (text.length > 512 || !characters.test(text)) return undefined;
  const [domain = "", first, role, name, ...more] = text.slice("spiffe://".length).split("/");
  const known = certifiedRoles.find((one) => one === role);
  if (!trustDomain.test(domain) || first !== path || known === undefined || more.length > 0) return undefined;
  const pattern = named[known];
  if (pattern === undefined) return name === undefined ? { trustDomain: domain, role: known, name: "" } : undefined;
  return name !== undefined && pattern.test(name) ? { trustDomain: domain, role: known, name } : undefined;
}

export function formatSpiffeId({ trustDomain: domain, role, name }: SpiffeId): string {
  return `spiffe://${domain}/${path}/${role}${name === "" ? "" : `/${name}`}`;
}

export const isTrustDomain = (text: string): boolean => trustDomain.test(text);

/** For messages about a name that a person wrote. */
export const namesThereAre =
  "controller/ID, node/NAME, scheduler/NAME, operator/NAME or monitor, of 1 to 128 of A-Z, a-z, 0-9, '.', '_' and '-'; a node as its HOLDFAST_NODE says";

/** `role/name`, as a person writes it and as it stands in the id. */
export function parseCertifiedName(text: string): Pick<SpiffeId, "role" | "name"> | undefined {
  const found = parseSpiffeId(`spiffe://any/${path}/${text}`);
  return found === undefined ? undefined : { role: found.role, name: found.name };
}
