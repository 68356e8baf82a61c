/**
 * How long the calls of one kind take, learned from those that were answered. Medians, found by small steps: one call that takes
 * a thousand times as long as the others moves them by one step, and no more.
 */
export interface CallTimes {
  readonly samples: number;
  /** Follows soon. */
  readonly medianMs: number;
  /** Follows falls soon, and rises only after long: what the plugin can do when it is not pressed. */
  readonly calmMs: number;
  /** The longest of late, forgotten slowly. */
  readonly peakMs: number;
}

const leastMs = 1;

const stepTowards = (from: number, to: number, up: number, down: number): number => {
  if (to > from) return Math.min(to, from * (1 + up));
  return Math.max(to, from / (1 + down));
};

export const withTime = (before: CallTimes | undefined, ms: number): CallTimes => {
  const took = Math.max(leastMs, ms);
  if (before === undefined) return { samples: 1, medianMs: took, calmMs: took, peakMs: took };
  const medianMs = stepTowards(before.medianMs, took, 0.1, 0.1);
  return {
    samples: before.samples + 1,
    medianMs,
    calmMs: stepTowards(before.calmMs, medianMs, 0.002, 0.1),
    peakMs: Math.max(took, before.peakMs * 0.98),
  };
};
