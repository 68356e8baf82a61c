/**
 * What no call is taken with any more: a certificate by its serial number, or every certificate of a name that was issued until a moment.
 * A serial alone does not hold who has renewed the certificate meanwhile; a name does.
 */
export interface Denial {
  /** A serial number in hexadecimal digits, as Node shows it, or `role/name`. */
  readonly subject: string;
  readonly at: number;
  /** By then every certificate that it is about has ended. */
  readonly endsAt: number;
  readonly who: string;
  readonly reason: string;
}

/** No certificate of an authority that issues for 90 days ends later. */
export const longestLifeMs = 90 * 24 * 3_600_000;

/** For clocks that are not alike: an entry outlives what it is about. */
export const keptMs = 3_600_000;

export interface Denied {
  readonly serial: string;
  /** `role/name`. */
  readonly name: string;
  readonly notBefore: number;
}

/** A short word like `ada` is a name whose role was forgotten; a short number is written with zeros before it. */
const serialPattern = /^[0-9a-f]{8,40}$/i;

/** As one certificate has one text: upper case, whole bytes, no zeros before. Undefined: it is no serial number. */
export const serialIn = (text: string): string | undefined => {
  const bare = text.replaceAll(":", "").toUpperCase();
  if (!serialPattern.test(bare)) return undefined;
  const digits = bare.replace(/^0+/, "");
  if (digits === "") return undefined;
  return digits.length % 2 === 0 ? digits : `0${digits}`;
};

/** The first moment, in whole seconds, from which on a certificate of a denied name is none of those that were meant. */
export const firstAfter = (at: number): number => (Math.floor(at / 1_000) + 1) * 1_000;

export const isDeniedBy = (
  { serial, name, notBefore }: Denied,
  of: (subject: string) => Pick<Denial, "at"> | undefined,
): boolean => {
  if (of(serial) !== undefined) return true;
  const named = of(name);
  return named !== undefined && notBefore < firstAfter(named.at);
};

/** Whether it says all that is asked: a serial once more says nothing new, a name is about what was issued since as well. */
export const holdsAlready = (before: Denial, endsAt: number | undefined): boolean =>
  !before.subject.includes("/") && (endsAt === undefined || before.endsAt >= endsAt);
