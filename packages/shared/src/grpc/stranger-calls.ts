/**
 * How much callers without a certificate may ask for, where others have one: to enrol, for health, for public keys. All that a process
 * serves counts together.
 *
 * SC1 Five calls a second begin from one address. SC2 Five are open at once, so that a stream that never ends is no way around. SC3 A host
 * has all addresses of an IPv6 network of 64 bits: that network is one address.
 */
import { HoldfastError } from "../errors/holdfast-error.ts";

const callsPerSecond = 5;
const openAtOnce = 5;
const secondMs = 1_000;

export interface StrangerCalls {
  /** Throws when it is one too many. Answers what is to be called at its end. */
  begin(address: string): () => void;
}

/** Counts all of a second together and then forgets it, so that no number of addresses fills the memory. */
export function createStrangerCalls(monotonic: () => number = () => performance.now()): StrangerCalls {
  const begun = new Map<string, number>();
  const open = new Map<string, number>();
  let since = Number.NEGATIVE_INFINITY;

  return {
    begin(told) {
      const address = strangerAddress(told);
      const now = monotonic();
      if (now - since >= secondMs) {
        begun.clear();
        since = now;
      }
      const [before, standing] = [begun.get(address) ?? 0, open.get(address) ?? 0];
      if (before >= callsPerSecond)
        throw tooMany(address, `has made ${callsPerSecond} calls without a certificate in this second`); // SC1
      if (standing >= openAtOnce) throw tooMany(address, `has ${openAtOnce} calls open without a certificate`); // SC2
      begun.set(address, before + 1);
      open.set(address, standing + 1);
      return () => {
        const left = (open.get(address) ?? 1) - 1;
        if (left > 0) open.set(address, left);
        else open.delete(address);
      };
    },
  };
}

/** The address without its port, however it is written. */
function strangerAddress(told: string): string {
  const bare = told.replace(/^\[([^\]]*)\].*$/, "$1");
  const [, mapped] = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(bare) ?? [];
  if (mapped !== undefined) return mapped;
  return bare.includes(":") ? `${networkOf(bare)}::/64` : bare;
}

/** SC3 */
function networkOf(address: string): string {
  const [before = "", after = ""] = address.replace(/%.*$/, "").split("::");
  const groupsIn = (part: string): readonly string[] => (part === "" ? [] : part.split(":"));
  const [left, right] = [groupsIn(before), groupsIn(after)];
  const zeros = Array.from({ length: Math.max(0, 8 - left.length - right.length) }, () => "0");
  return [...left, ...zeros, ...right]
    .slice(0, 4)
    .map((group) => group.toLowerCase().replace(/^0+(?=.)/, ""))
    .join(":");
}

const tooMany = (address: string, what: string): HoldfastError =>
  new HoldfastError({
    kind: "exhausted",
    reason: "OVERLOADED",
    message: `${address} ${what}; wait for a second, or call with a certificate`,
    metadata: { address },
  });
