/** A list of 32-bit numbers that only grows. */
export interface Numbers {
  push(value: number): void;
  at(index: number): number;
  length(): number;
}

export const createNumbers = (): Numbers => {
  let held = new Uint32Array(1 << 12);
  let length = 0;
  return {
    push(value) {
      if (length === held.length) {
        const longer = new Uint32Array(held.length * 2);
        longer.set(held);
        held = longer;
      }
      held[length] = value;
      length += 1;
    },
    at: (index) => held[index] ?? 0,
    length: () => length,
  };
};
