/** Calls `fn` for each item, at most `atOnce` at a time, in their order. The first failure is told; what runs beside it goes on. */
export async function inTurns<T>(items: readonly T[], atOnce: number, fn: (item: T) => Promise<void>): Promise<void> {
  const left = items.values();
  const lane = async (): Promise<void> => {
    for (const item of left) await fn(item);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, lane));
}
