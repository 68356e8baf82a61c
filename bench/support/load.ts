/** One call as its caller saw it. Times are of CLOCK_MONOTONIC, the same in every process of the machine. */
export interface Sample {
  readonly index: number;
  readonly begin: bigint;
  readonly end: bigint;
}

export interface Load {
  readonly samples: readonly Sample[];
  readonly seconds: number;
}

/** Calls once for each index, so many at a time. The first failure stops it. */
export const run = async (
  indexes: readonly number[],
  inFlight: number,
  call: (index: number) => Promise<void>,
): Promise<Load> => {
  const samples: Sample[] = [];
  const queue = indexes.values();
  const lane = async (): Promise<void> => {
    for (const index of queue) {
      const begin = process.hrtime.bigint();
      await call(index);
      samples.push({ index, begin, end: process.hrtime.bigint() });
    }
  };
  const start = process.hrtime.bigint();
  await Promise.all(Array.from({ length: inFlight }, lane));
  return { samples, seconds: Number(process.hrtime.bigint() - start) / 1e9 };
};

export const millisecondsOf = ({ begin, end }: Sample): number => Number(end - begin) / 1e6;
