/** Tickets of workloads, as a scheduler signs them. */
import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { signJws } from "@holdfast/shared/trust/jws";

export interface TicketPair {
  readonly privateKey: KeyObject;
  readonly pem: string;
}

export const ticketPair = (kind: "ec" | "rsa" = "ec"): TicketPair => {
  const { privateKey, publicKey } =
    kind === "ec"
      ? generateKeyPairSync("ec", { namedCurve: "prime256v1" })
      : generateKeyPairSync("rsa", { modulusLength: 2048 });
  return { privateKey, pem: publicKey.export({ format: "pem", type: "spki" }).toString() };
};

export const signTicket = ({ privateKey }: TicketPair, claims: object, header: object = {}): Promise<string> =>
  signJws(privateKey, { typ: "holdfast-ticket+jwt", ...header }, claims);
