/** The calls to one plugin that have not come back: what has to end before it may be stopped. */
import { createNotifier } from "@holdfast/shared/async/notifier";
import type { CsiCaller } from "./csi-caller.ts";
import type { CsiMethod } from "./methods.ts";

export interface CallsUnderWay {
  /** The same caller, counted. */
  readonly caller: CsiCaller;
  /** Each with what it is about, the oldest first. */
  list(): readonly string[];
  /** Resolves when there is none; rejects when aborted. */
  idle(signal: AbortSignal): Promise<void>;
}

export function countCalls(caller: CsiCaller): CallsUnderWay {
  const underWay = new Set<{ readonly words: string }>();
  const changes = createNotifier();

  const begin = (method: CsiMethod, volume: string | undefined): (() => void) => {
    const call = { words: volume === undefined ? method : `${method} for volume ${volume}` };
    underWay.add(call);
    return () => {
      underWay.delete(call);
      changes.notify();
    };
  };

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
