import { test } from "vitest";

const root = process.getuid?.() === 0;

/** Loop devices and mounts on the host need root: without it the test is skipped, and says so by its name. */
export const asRoot = (name: string, body: () => Promise<void>, timeoutMs?: number): void => {
  if (root) test(name, body, timeoutMs);
  else test.skip(`${name} (needs root)`, body);
};
