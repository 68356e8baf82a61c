/** A duration as protobuf writes it. */
export interface WireDuration {
  readonly seconds: bigint;
  readonly nanos: number;
}

/** The most that protobuf allows: ten thousand years. */
const maxSeconds = 315_576_000_000n;

/** Whole milliseconds, a part of one counts as one. Undefined for less than zero, and for what is no duration. */
export const msOfDuration = ({ seconds, nanos }: WireDuration): number | undefined =>
  seconds < 0n || nanos < 0 || seconds > maxSeconds || nanos > 999_999_999
    ? undefined
    : Number(seconds) * 1000 + Math.ceil(nanos / 1e6);

/** A part of a millisecond counts as one. */
export const wireDuration = (ms: number): WireDuration => {
  const whole = Math.ceil(ms);
  return { seconds: BigInt(Math.floor(whole / 1000)), nanos: (whole % 1000) * 1e6 };
};
