import { X509Certificate } from "node:crypto";
import { AuthorityProblem, issuingTtlMs, readAuthority } from "../trust/authority.ts";
import { isUnusable, readCredentialTexts } from "../trust/credential-files.ts";
import { judgeCredentials } from "../trust/judge-credentials.ts";
import { certifiedRoles } from "../trust/spiffe-id.ts";
import { isKeyOpen, shareLeft } from "./examine-certificates.ts";
import { type Finding, fault, fine, warning } from "./finding.ts";

export interface AuthorityExamination {
  /** undefined: this controller issues nothing. */
  readonly at: string | undefined;
  /** Of its own certificate, which has to be of the same trust domain. */
  readonly tlsDir: string | undefined;
  readonly now: number;
}

const renew = "where the root is, holdfast ca renew --dir DIR, and put DIR/issuing here: no restart is needed";

/** undefined: that is a finding of its own. */
const ownTrustDomain = (tlsDir: string): string | undefined => {
  const texts = readCredentialTexts(tlsDir);
  const own = isUnusable(texts) ? texts : judgeCredentials(texts, { roles: certifiedRoles });
  return isUnusable(own) ? undefined : own.leaf.id.trustDomain;
};

const timesOf = (pem: string) => {
  const { validFromDate, validToDate } = new X509Certificate(pem);
  return { from: validFromDate.getTime(), until: validToDate.getTime(), told: validToDate.toISOString() };
};

const ofTime = (at: string, issuing: string, root: string, now: number): readonly Finding[] => {
  const [own, anchor] = [timesOf(issuing), timesOf(root)];
  const found: Finding[] = [];
  if (own.until - now < (own.until - own.from) * shareLeft)
    found.push(
      warning(
        "authority-expiring",
        at,
        `ends at ${own.told}: from then on nobody enrols and no certificate is renewed`,
        renew,
      ),
    );
  if (anchor.until - now < issuingTtlMs)
    found.push(
      warning(
        "authority-root-expiring",
        at,
        `the root that it leads to ends at ${anchor.told}, and all that was issued with it`,
        "make another root with holdfast ca init, put both roots into every ca.crt, issue everything anew, then take the old root out",
      ),
    );
  return found;
};

/** What would keep this controller from issuing certificates, now or soon. */
export const examineAuthority = async ({ at, tlsDir, now }: AuthorityExamination): Promise<readonly Finding[]> => {
  if (at === undefined) return [];
  if (tlsDir === undefined)
    return [
      fault(
        "authority-unusable",
        at,
        "HOLDFAST_CA_DIR is set without HOLDFAST_TLS_DIR: the controller does not start",
        "set HOLDFAST_TLS_DIR to a certificate of this controller",
      ),
    ];
  try {
    const { chain, root, notAfter } = await readAuthority(at, { now, trustDomain: ownTrustDomain(tlsDir) });
    const found = [
      ...ofTime(at, chain[0] ?? "", root, now),
      ...(isKeyOpen(at)
        ? [fault("authority-key-open", at, "everybody on this host may issue certificates", "chmod o-rwx its key")]
        : []),
    ];
    return found.length > 0 ? found : [fine("authority", at, `issues until ${new Date(notAfter).toISOString()}`)];
  } catch (error) {
    if (!(error instanceof AuthorityProblem)) throw error;
    if (error.passing) return [fault("authority-expired", at, `nothing is issued: ${error.message}`, renew)];
    return [
      fault(
        "authority-unusable",
        at,
        `${error.message}: the controller does not start`,
        "name the directory `issuing` of what holdfast ca init made, or leave HOLDFAST_CA_DIR out",
      ),
    ];
  }
};
