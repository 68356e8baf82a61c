/**
 * A set of rows of numbers that only grows, in typed arrays: millions of rows take tens of bytes each.
 *
 * R1 Rows are compared as a whole: no two rows are taken for one because their hashes are equal.
 */
export interface RowSet {
  /** The place of the row, and whether the row is new. */
  add(row: Uint32Array): { readonly at: number; readonly isNew: boolean };
  read(at: number, into: Uint32Array): void;
  size(): number;
}

const chunkRows = 1 << 16;

const hashOf = (row: Uint32Array): number => {
  let hash = 0x9e3779b9;
  for (const word of row) {
    hash = Math.imul(hash ^ word, 0x85ebca6b);
    hash ^= hash >>> 15;
  }
  hash = Math.imul(hash, 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
};

export const createRowSet = (width: number): RowSet => {
  const chunks: Uint32Array[] = [];
  let size = 0;
  /** Places plus one, by hash; 0 is free. */
  let table = new Uint32Array(1 << 16);

  const chunkOf = (at: number): Uint32Array => {
    const chunk = chunks[Math.floor(at / chunkRows)];
    if (chunk === undefined) throw new Error(`no row has the place ${at}`);
    return chunk;
  };
  const isAt = (at: number, row: Uint32Array): boolean => {
    const chunk = chunkOf(at);
    const from = (at % chunkRows) * width;
    for (let i = 0; i < width; i += 1) if (chunk[from + i] !== row[i]) return false;
    return true;
  };
  const read = (at: number, into: Uint32Array): void => {
    const from = (at % chunkRows) * width;
    into.set(chunkOf(at).subarray(from, from + width));
  };
  const grow = (): void => {
    const wider = new Uint32Array(table.length * 2);
    const row = new Uint32Array(width);
    for (let at = 0; at < size; at += 1) {
      read(at, row);
      let slot = hashOf(row) & (wider.length - 1);
      while (wider[slot] !== 0) slot = (slot + 1) & (wider.length - 1);
      wider[slot] = at + 1;
    }
    table = wider;
  };

  return {
    add(row) {
      let slot = hashOf(row) & (table.length - 1);
      for (let held = table[slot] ?? 0; held !== 0; held = table[slot] ?? 0) {
        if (isAt(held - 1, row)) return { at: held - 1, isNew: false }; // R1
        slot = (slot + 1) & (table.length - 1);
      }
      const at = size;
      if (at % chunkRows === 0) chunks.push(new Uint32Array(chunkRows * width));
      chunkOf(at).set(row, (at % chunkRows) * width);
      table[slot] = at + 1;
      size += 1;
      if (size * 2 > table.length) grow();
      return { at, isNew: true };
    },
    read,
    size: () => size,
  };
};
