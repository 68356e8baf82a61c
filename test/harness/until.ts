/**
 * Asks again until the answer is there; for what has no event to wait for. Rejects with what it last saw. A long wait asks less often: to
 * ask fifty times a second was half of the CPU of some tests.
 */
export const until = async <T>(
  what: string | (() => string),
  ask: () => Promise<T | undefined | false> | T | undefined | false,
  timeoutMs = 30_000,
): Promise<T> => {
  const start = performance.now();
  for (;;) {
    const answer = await ask();
    if (answer !== undefined && answer !== false) return answer;
    const waited = performance.now() - start;
    if (waited > timeoutMs)
      throw new Error(`waited ${timeoutMs} ms in vain for ${typeof what === "string" ? what : what()}`);
    await new Promise((resolve) => setTimeout(resolve, Math.min(Math.max(waited / 10, 20), 100)));
  }
};
