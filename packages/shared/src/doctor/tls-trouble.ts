import { type Finding, fault } from "./finding.ts";

/** What a client is told by TLS when it does not come to a call, as the words of the library or our own. */
const troubles: readonly (readonly [words: RegExp, id: string, cure: string])[] = [
  [
    /of another trust domain/,
    "certificate-domain",
    "correct the address, which leads to another installation, or give both sides certificates of one trust domain",
  ],
  [
    /and no controller|names nobody/,
    "certificate-role",
    "correct the address: what listens there does not have the certificate of a controller",
  ],
  [
    /certificate has expired/,
    "certificate-expired",
    "renew the certificate of the controller there; if it is good, set the clock of this host by NTP",
  ],
  [/not yet valid/, "certificate-early", "compare the clocks of both hosts (timedatectl set-ntp true)"],
  [
    /self-signed certificate|unable to (?:get|verify)|certificate signature failure/,
    "certificate-unknown",
    "the roots of this side (ca.crt) have to hold the authority of the controller's certificate",
  ],
  [
    /wrong version number|packet length too long|EPROTO/,
    "plain-port",
    "that port has no TLS: set HOLDFAST_TLS_DIR of the controller, or correct the address",
  ],
];

/** Undefined: it is no matter of certificates. */
export function tlsTrouble(address: string, message: string): Finding | undefined {
  const [, id, cure] = troubles.find(([words]) => words.test(message)) ?? [];
  return id === undefined || cure === undefined ? undefined : fault(id, address, message, cure);
}
