/**
 * Whether an agent may ask for a workload's claims by the word of a scheduler: a ticket, signed with a key that a grant has for the namespace.
 *
 * TK1 Where there are such keys nothing is asked without a ticket that one of them signed; where there are none a ticket is refused, as it
 * would say nothing. TK2 It is for this workload, in this namespace, on this node, for these volumes, and for a time of an hour at most. TK3
 * Nothing of it is in a message.
 */
import { createPublicKey } from "node:crypto";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { type JsonObject, verifyJws } from "@holdfast/shared/trust/jws";

export interface TicketAsked {
  /** Empty: there is none. */
  readonly ticket: string;
  readonly workload: string;
  /** Undefined: the workload is given back, whichever volumes it has. */
  readonly volumes: readonly string[] | undefined;
}

export interface TicketQuestion extends TicketAsked {
  /** Of the caller. */
  readonly node: string;
  readonly namespace: string;
  /** JWKs of the grants that have the namespace. */
  readonly keys: readonly string[];
  /** Wall clock, milliseconds. */
  readonly now: number;
}

/** No other JWT that the same key signs is taken for a ticket (RFC 8725). */
const ticketType = "holdfast-ticket+jwt";

/** 64 volumes with the longest names have room. */
const mostTicketChars = 8192;
const longestMs = 3_600_000;
/** The clock of the scheduler may be ahead by so much. */
const skewMs = 30_000;

type Why = "form" | "signature" | "ended" | "time" | "namespace" | "workload" | "node" | "volume" | "no-keys";

/** Throws TICKET_REQUIRED or TICKET_REFUSED. */
export const judgeTicket = (question: TicketQuestion): void => {
  const { ticket, keys } = question;
  if (ticket === "") throw ticketRequired(question); // TK1
  if (ticket.length > mostTicketChars)
    throw ticketRefused(question, "form", `it is longer than ${mostTicketChars} characters`);
  const found = verifyJws(ticket, () => keys.map((jwk) => createPublicKey({ key: JSON.parse(jwk), format: "jwk" })));
  if ("wrong" in found) throw ticketRefused(question, "signature", found.wrong);
  if (found.header["typ"] !== ticketType)
    throw ticketRefused(question, "form", `its header has not the typ ${ticketType}`);
  const refusal = wrongIn(found.claims, question);
  if (refusal !== undefined) throw ticketRefused(question, ...refusal);
};

/** TK2 */
const wrongIn = (claims: JsonObject, asked: TicketQuestion): readonly [Why, string] | undefined =>
  wrongTime(claims, asked.now) ??
  wrongName(claims, asked) ??
  (asked.volumes === undefined ? undefined : wrongVolume(claims["volumes"], asked.volumes));

const wrongTime = ({ exp, nbf }: JsonObject, now: number): readonly [Why, string] | undefined => {
  if (!isTime(exp)) return ["form", "its exp is no time in whole seconds"];
  const clock = `by the clock of this controller, which says ${new Date(now).toISOString()}`;
  if (exp * 1000 <= now) return ["ended", `it has ended ${clock}`];
  if (exp * 1000 > now + longestMs + skewMs) return ["time", `its exp is more than an hour from now ${clock}`];
  if (nbf === undefined) return undefined;
  if (!isTime(nbf)) return ["form", "its nbf is no time in whole seconds"];
  return nbf * 1000 > now + skewMs ? ["time", `its nbf has not come yet ${clock}`] : undefined;
};

const isTime = (value: unknown): value is number => Number.isSafeInteger(value);

const wrongName = (claims: JsonObject, asked: TicketQuestion): readonly [Why, string] | undefined => {
  const other = (["namespace", "workload", "node"] as const).find((name) => claims[name] !== asked[name]);
  return other && [other, `it is not for this ${other}`];
};

const wrongVolume = (volumes: unknown, asked: readonly string[]): readonly [Why, string] | undefined => {
  if (!Array.isArray(volumes)) return ["form", "its volumes are no list"];
  const other = asked.find((volume) => !volumes.includes(volume));
  return other === undefined ? undefined : ["volume", `it is not for volume ${other}`];
};

type Named = Pick<TicketQuestion, "node" | "namespace" | "workload">;

const nameOf = ({ namespace, workload, node }: Named): string => `workload ${namespace}/${workload} on node ${node}`;

const handed = "is handed to PrepareWorkload and ReleaseWorkload (docs/security.md)";

const ticketRequired = ({ namespace, workload, node }: Named): HoldfastError =>
  new HoldfastError({
    kind: "permission",
    reason: "TICKET_REQUIRED",
    message: `${nameOf({ namespace, workload, node })} comes without a ticket, and a grant has ticket keys for namespace ${namespace}: a ticket that its scheduler signs for the workload, the node and the volumes ${handed}`,
    metadata: { node, namespace, workload },
  });

const ticketRefused = (
  { namespace, workload, node }: Named,
  why: Why,
  words: string,
  cure = `Another one, which the scheduler signs, ${handed}`,
): HoldfastError =>
  new HoldfastError({
    kind: "permission",
    reason: "TICKET_REFUSED",
    message: `the ticket of ${nameOf({ namespace, workload, node })} is refused: ${words}. ${cure}`,
    metadata: { why, node, namespace, workload }, // TK3
  });

/** Nothing is accepted and not looked at. */
export const refuseNeedlessTicket = (asked: Named & Pick<TicketAsked, "ticket">): void => {
  if (asked.ticket === "") return;
  const words = `no grant has ticket keys for namespace ${asked.namespace}, so that nothing verifies it`;
  const cure = "An operator hands them in (holdfast grant set --ticket-keys), or the call is made without a ticket";
  throw ticketRefused(asked, "no-keys", words, cure);
};
