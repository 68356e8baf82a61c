/** The calls to one instance that have no answer yet, whether or not a caller still waits: all have to end before it may be stopped. */
import { createNotifier } from "@holdfast/shared/async/notifier";
import type { CsiCaller } from "./csi-caller.ts";
import type { CsiMethod } from "./methods.ts";

export interface CallsUnderWay {
  /** The same caller, counted. */
  readonly caller: CsiCaller;
  /** A call whose last caller has gone and which is open at the plugin; the function that is returned says that it has ended. */
  left(words: string): () => void;
  /** Each with its subject, the oldest first. */
  list(): readonly string[];
  /** Those of `list` that a caller waits for. */
  awaited(): readonly string[];
  /** Resolves when there is none; rejects when aborted. */
  idle(signal: AbortSignal): Promise<void>;
}

export function countCalls(caller: CsiCaller): CallsUnderWay {
  const underWay = new Set<{ readonly words: string; readonly left: boolean }>();
  const changes = createNotifier();

  const add = (words: string, left: boolean): (() => void) => {
    const call = { words, left };
    underWay.add(call);
    return () => {
      underWay.delete(call);
      changes.notify();
    };
  };
  const begin = (method: CsiMethod, volume: string | undefined): (() => void) =>
    add(volume === undefined ? method : `${method} for volume ${volume}`, false);

  const counted: CsiCaller = {
    async call(method, input, options) {
      const end = begin(method, options.subject?.volume);
      try {
        return await caller.call(method, input, options);
      } finally {
        end();
      }
    },
    async relay(method, bytes, options) {
      const end = begin(method, options.subject?.volume);
      try {
        return await caller.relay(method, bytes, options);
      } finally {
        end();
      }
    },
    async *stream(method, input, options) {
      const end = begin(method, options.subject?.volume);
      try {
        yield* caller.stream(method, input, options);
      } finally {
        end();
      }
    },
    async *relayStream(method, bytes, options) {
      const end = begin(method, options.subject?.volume);
      try {
        yield* caller.relayStream(method, bytes, options);
      } finally {
        end();
      }
    },
  };

  return {
    caller: counted,
    left: (words) => add(words, true),
    awaited: () => [...underWay].filter(({ left }) => !left).map(({ words }) => words),
    list: () => [...underWay].map(({ words }) => words),
    async idle(signal) {
      for (;;) {
        const version = changes.version();
        if (underWay.size === 0) return;
        await changes.wait(version, signal);
      }
    },
  };
}
