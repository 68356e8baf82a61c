/** Waiting that can be given up. An aborted wait always rejects with the signal's reason, and never resolves. */

const hearersKey = Symbol("hearers of the abort");

interface Hearers {
  readonly tells: Set<() => void>;
  readonly hear: () => void;
}

interface HeardSignal extends AbortSignal {
  [hearersKey]?: Hearers | undefined;
}

/**
 * Calls `tell` when the signal is aborted, which it must not be yet, unless the returned function is called before. The signal has one
 * listener for all: it compares each listener that comes or goes with all others, and a signal of the whole process has thousands.
 */
export function onAbort(signal: AbortSignal, tell: () => void): () => void {
  const heard: HeardSignal = signal;
  const hearers = heard[hearersKey] ?? listenTo(heard);
  const { tells, hear } = hearers;
  const entry = (): void => tell();
  tells.add(entry);
  return () => {
    if (!tells.delete(entry) || tells.size > 0 || heard[hearersKey] !== hearers) return;
    heard[hearersKey] = undefined;
    signal.removeEventListener("abort", hear);
  };
}

function listenTo(signal: HeardSignal): Hearers {
  const tells = new Set<() => void>();
  const hear = (): void => {
    signal[hearersKey] = undefined;
    for (const tell of tells) {
      tells.delete(tell);
      tell();
    }
  };
  const hearers = { tells, hear };
  signal[hearersKey] = hearers;
  signal.addEventListener("abort", hear, { once: true });
  return hearers;
}

/** Settles as `promise` does, or rejects as soon as the signal is aborted. The work behind the promise goes on. */
export function waitFor<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise<T>((resolve, reject) => {
    if (signal.aborted) {
      // The promise has no other listener now; its failure must not count as unhandled.
      promise.catch(() => undefined);
      reject(reasonOf(signal));
      return;
    }
    const leave = onAbort(signal, () => reject(reasonOf(signal)));
    promise.then(resolve, reject).finally(leave);
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
    releases.push(onAbort(parent, () => abort(parent.reason)));
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
