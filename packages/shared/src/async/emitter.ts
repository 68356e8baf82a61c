/**
 * The listeners of an event: each tell calls them in the same turn, in the order in which they came.
 *
 * E1 A tell reaches the listeners that were there when the tell began. A listener that comes meanwhile hears the next tell, and a
 *    listener that leaves meanwhile hears this tell still.
 * E2 An error of a listener ends the tell and reaches the teller. A listener that can fail catches its own errors.
 * E3 A function listens once, however often it was handed in, and leaves for good when it leaves once.
 */
export interface Emitter<Told extends readonly unknown[]> {
  tell(...told: Told): void;
  /** Listens until the returned function is called. */
  on(listener: (...told: Told) => void): () => void;
  clear(): void;
}

export function createEmitter<Told extends readonly unknown[] = []>(): Emitter<Told> {
  const listeners = new Set<(...told: Told) => void>();
  return {
    tell(...told) {
      for (const listener of [...listeners]) listener(...told); // E1
    },
    on(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    clear: () => listeners.clear(),
  };
}
