/** What the store of a controller was vetted as, as messages of holdfast.internal.v1 have it. */
import type { Vetting } from "@holdfast/model/vetting";
import { invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import type { RaiseFloorRequest, Vetting as VettingMessage } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import type { Checks } from "./checks.ts";
import { safeNumber } from "./convert-words.ts";

const maxUid = 128;

export function vettingFrom(checks: Checks, field: string, message: VettingMessage | undefined): Vetting | undefined {
  if (message === undefined) return undefined;
  const gen = safeNumber(message.gen);
  checks.that(gen >= 0, `${field}.gen`, "has to be from 0 to 2^53 - 1");
  checks.that(message.uid.length <= maxUid, `${field}.uid`, `has at most ${maxUid} bytes`);
  return { gen, uid: message.uid };
}

/** Of a message that has the two beside each other. */
export function vettingOf(number: bigint, uid: string, field: string): Vetting {
  const gen = safeNumber(number);
  const violations = [
    ...(gen < 0 ? [{ field, description: "has to be from 0 to 2^53 - 1" }] : []),
    ...(uid.length > maxUid ? [{ field: "vetting_uid", description: `has at most ${maxUid} bytes` }] : []),
  ];
  if (violations.length > 0) throw invalidArgument(violations);
  return { gen, uid };
}

export const promiseAsked = ({ promisedGen, vettingUid }: RaiseFloorRequest): Vetting =>
  vettingOf(promisedGen, vettingUid, "promised_gen");
