/** Asks again until the answer is there; for what has no event to wait for. Rejects with what it last saw. */
export const until = async <T>(
  what: string | (() => string),
  ask: () => Promise<T | undefined | false> | T | undefined | false,
  timeoutMs = 30_000,
): Promise<T> => {
  const start = performance.now();
  for (;;) {
    const answer = await ask();
    if (answer !== undefined && answer !== false) return answer;
    if (performance.now() - start > timeoutMs)
      throw new Error(`waited ${timeoutMs} ms in vain for ${typeof what === "string" ? what : what()}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};
