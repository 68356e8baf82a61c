/** Waiting that can be given up. An aborted wait always rejects with the signal's reason, and never resolves. */

/** Settles as `promise` does, or rejects as soon as the signal is aborted. The work behind the promise goes on. */
export function waitFor<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise<T>((resolve, reject) => {
    const onAbort = () => reject(reasonOf(signal));
    if (signal.aborted) {
      // The promise has no other listener now; its failure must not count as unhandled.
      promise.catch(() => undefined);
      onAbort();
      return;
    }
    signal.addEventListener("abort", onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw reasonOf(signal);
}

/** The signal's reason as an Error, whatever was given to abort(). */
export function reasonOf(signal: AbortSignal): Error {
  const reason: unknown = signal.reason;
  return reason instanceof Error ? reason : new DOMException(String(reason ?? "aborted"), "AbortError");
}

export interface LinkedSignal {
  readonly signal: AbortSignal;
  abort(reason: unknown): void;
  /** Lets go of the parents. Needed: parents often live as long as the process. */
  dispose(): void;
}

/** A signal that aborts with the first of its parents, or by itself; unlike AbortSignal.any it can be taken off again. */
export function linkSignals(...parents: readonly (AbortSignal | undefined)[]): LinkedSignal {
  const controller = new AbortController();
  const releases: (() => void)[] = [];
  const dispose = () => {
    for (const release of releases.splice(0)) release();
  };
  const abort = (reason: unknown) => {
    dispose();
    controller.abort(reason);
  };
  for (const parent of parents) {
    if (parent === undefined) continue;
    if (parent.aborted) {
      abort(parent.reason);
      break;
    }
    const onAbort = () => abort(parent.reason);
    parent.addEventListener("abort", onAbort, { once: true });
    releases.push(() => parent.removeEventListener("abort", onAbort));
  }
  return { signal: controller.signal, abort, dispose };
}

/**
 * True for plain aborts, of whatever make. A signal may carry any other reason (those of the gRPC server are HoldfastErrors):
 * whoever asks whether its own wait was given up asks the signal, `signal.aborted`.
 */
export function isAbort(error: unknown): boolean {
  if (typeof error !== "object" || error === null || !("name" in error)) return false;
  return error.name === "AbortError" || error.name === "TimeoutError";
}
