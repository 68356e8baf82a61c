/** The attacker: swaps a directory for a link to a place of its own and back, as fast as it can. */
import { renameSync, symlinkSync, unlinkSync } from "node:fs";
import { workerData } from "node:worker_threads";

export interface SwapOrders {
  /** The directory that is swapped. */
  readonly victim: string;
  /** Where the link leads. */
  readonly outside: string;
  /** [0]: 1 asks for the end, [1]: swaps so far. */
  readonly shared: SharedArrayBuffer;
}

const { victim, outside, shared } = workerData as SwapOrders;
const state = new Int32Array(shared);
const aside = `${victim}.aside`;

const quietly = (act: () => void): void => {
  try {
    act();
  } catch {
    // The other side was faster; the next turn finds what is there.
  }
};

while (Atomics.load(state, 0) === 0) {
  quietly(() => renameSync(victim, aside));
  quietly(() => symlinkSync(outside, victim));
  Atomics.add(state, 1, 1);
  quietly(() => unlinkSync(victim));
  quietly(() => renameSync(aside, victim));
}
