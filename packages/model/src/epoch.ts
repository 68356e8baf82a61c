/** Number of a volume's grants: `gen` rises when a store was lost and vetted anew, `ctr` with each grant. */
export interface Epoch {
  readonly gen: number;
  readonly ctr: number;
}

export const zeroEpoch: Epoch = { gen: 0, ctr: 0 };

export const compareEpochs = (a: Epoch, b: Epoch): number => a.gen - b.gen || a.ctr - b.ctr;

export const sameEpoch = (a: Epoch, b: Epoch): boolean => compareEpochs(a, b) === 0;

export const newerEpoch = (a: Epoch, b: Epoch): Epoch => (compareEpochs(a, b) >= 0 ? a : b);

export const oldestEpoch = (epochs: readonly Epoch[]): Epoch | undefined =>
  epochs.reduce<Epoch | undefined>((low, e) => (low === undefined || compareEpochs(e, low) < 0 ? e : low), undefined);

/** The next grant under the store's generation; never lower than what was granted before. */
export const nextEpoch = (last: Epoch, storeGen: number): Epoch => ({
  gen: Math.max(last.gen, storeGen),
  ctr: last.ctr + 1,
});

/** The greatest epoch that is below: where the floor goes when this one is the oldest alive. */
export const epochBelow = (epoch: Epoch): Epoch => {
  if (epoch.ctr > 0) return { gen: epoch.gen, ctr: epoch.ctr - 1 };
  return epoch.gen > 0 ? { gen: epoch.gen - 1, ctr: Number.MAX_SAFE_INTEGER } : zeroEpoch;
};

/** "2.17": as people read it in logs and messages. */
export const showEpoch = (epoch: Epoch): string => `${epoch.gen}.${epoch.ctr}`;
