import { statSync } from "node:fs";
import path from "node:path";
import { credentialFiles, isUnusable, readCredentialTexts } from "../trust/credential-files.ts";
import { judgeCredentials } from "../trust/judge-credentials.ts";
import { certifiedRoles, formatSpiffeId } from "../trust/spiffe-id.ts";
import { type Finding, fault, fine, warning } from "./finding.ts";

export interface CertificateExamination {
  /** A directory or one file; undefined: there is no TLS. */
  readonly at: string | undefined;
  readonly setting: string;
  /** `role` or `role/name` that this process has to be. */
  readonly wanted: string;
  readonly now: number;
}

/** Of its time. A renewal that works comes earlier: with less left the certificate is told as about to end. */
export const shareLeft = 0.2;

/** What would keep others from believing this process, now or soon. */
export function examineCertificates({ at, setting, wanted, now }: CertificateExamination): readonly Finding[] {
  if (at === undefined) return [];
  const texts = readCredentialTexts(at);
  const found = isUnusable(texts) ? texts : judgeCredentials(texts, { roles: certifiedRoles });
  if (isUnusable(found))
    return [
      fault(
        "certificate-files",
        at,
        found.wrong,
        `correct the program that writes there, or ${setting}: the service does not start`,
      ),
    ];
  const { leaf, notBefore, notAfter } = found;
  const named = formatSpiffeId(leaf.id);
  const name = leaf.id.name === "" || !wanted.includes("/") ? leaf.id.role : `${leaf.id.role}/${leaf.id.name}`;
  const problems: Finding[] = [];
  if (name !== wanted)
    problems.push(
      fault("certificate-role", at, `is of ${named}, and this has to be ${wanted}`, `get a certificate of ${wanted}`),
    );
  const until = new Date(notAfter).toISOString();
  if (now >= notAfter)
    problems.push(
      fault(
        "certificate-expired",
        at,
        `ended at ${until}, and this host's clock says ${new Date(now).toISOString()}`,
        "renew it, and start the program again that renews it; or set the clock",
      ),
    );
  else if (now < notBefore)
    problems.push(
      fault(
        "certificate-early",
        at,
        `begins at ${new Date(notBefore).toISOString()}, and this host's clock says ${new Date(now).toISOString()}`,
        "set the clock by NTP (timedatectl set-ntp true)",
      ),
    );
  else if (notAfter - now < (notAfter - notBefore) * shareLeft)
    problems.push(
      warning(
        "certificate-expiring",
        at,
        `ends at ${until}`,
        "look at the program that renews it, or renew it by hand",
      ),
    );
  if (isKeyOpen(at))
    problems.push(
      warning("certificate-key-open", at, "everybody on this host may read the key", "chmod o-rwx its file"),
    );
  return problems.length > 0 ? problems : [fine("certificate", at, `is of ${named} until ${until}`)];
}

export const isKeyOpen = (at: string): boolean => {
  const stat = statSync(at);
  const { mode } = stat.isDirectory() ? statSync(path.join(at, credentialFiles.key)) : stat;
  return (mode & 0o004) !== 0;
};
