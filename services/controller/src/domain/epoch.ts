/** Monotonic number of a volume's grants: `gen` rises with each vetting of the store, `ctr` with each grant. */
export interface Epoch {
  readonly gen: number;
  readonly ctr: number;
}

export const zeroEpoch: Epoch = { gen: 0, ctr: 0 };

export const compareEpochs = (a: Epoch, b: Epoch): number => a.gen - b.gen || a.ctr - b.ctr;

/** The next grant under the store's generation; never lower than what was granted before. */
export const nextEpoch = (last: Epoch, storeGen: number): Epoch => ({
  gen: Math.max(last.gen, storeGen),
  ctr: last.ctr + 1,
});

export const oldestEpoch = (epochs: readonly Epoch[]): Epoch | undefined =>
  epochs.reduce<Epoch | undefined>((low, e) => (low === undefined || compareEpochs(e, low) < 0 ? e : low), undefined);
