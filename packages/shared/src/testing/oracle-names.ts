/** The URIs among a certificate's alternative names, as a library reads them; undefined for what it does not read. For comparing only. */
import "reflect-metadata";
import * as x509 from "@peculiar/x509";

export function oracleNames(der: Buffer): readonly string[] | undefined {
  try {
    const names = new x509.X509Certificate(der).getExtension(x509.SubjectAlternativeNameExtension);
    return names?.names.items.filter(({ type }) => type === "url").map(({ value }) => value) ?? [];
  } catch {
    return undefined;
  }
}
