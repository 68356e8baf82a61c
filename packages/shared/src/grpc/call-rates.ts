/**
 * How many calls a second each caller may make: a bucket of tokens for each, which holds those of two seconds. A bucket that is full again is
 * forgotten, so that callers who come once leave nothing.
 */
export interface CallRates {
  /** Takes a token; false: there is none. */
  take(caller: string, now: number): boolean;
  size(): number;
}

interface Bucket {
  tokens: number;
  at: number;
}

const burstSeconds = 2;
const looksEvery = 1_024;

export function createCallRates(perSecond: number): CallRates {
  const most = perSecond * burstSeconds;
  const buckets = new Map<string, Bucket>();
  let takes = 0;

  const filled = ({ tokens, at }: Bucket, now: number): number =>
    Math.min(most, tokens + (Math.max(0, now - at) / 1_000) * perSecond);
  const forgetFull = (now: number): void => {
    for (const [caller, bucket] of buckets) if (filled(bucket, now) >= most) buckets.delete(caller);
  };

  return {
    take(caller, now) {
      takes += 1;
      if (takes % looksEvery === 0) forgetFull(now);
      const bucket = buckets.get(caller);
      const tokens = bucket === undefined ? most : filled(bucket, now);
      if (tokens < 1) return false;
      buckets.set(caller, { tokens: tokens - 1, at: now });
      return true;
    },
    size: () => buckets.size,
  };
}
