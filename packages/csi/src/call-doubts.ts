/**
 * Calls of one plugin that are over without the plugin's own status, by subject: the plugin may be working on them.
 *
 * U1 Such a call has ended when the same call was answered by the process that told ABORTED, or any call of its subject by the next process
 * on the socket of one that is gone; no answer of another socket, and none over another connection to the same process, ends it. U2 At most
 * `most` are remembered; once there was one more, every subject is in doubt of which none is remembered.
 */
import type { Clock } from "@holdfast/shared/async/clock";

/** The process that listens on a plugin's socket, as far as that can be seen from its connection. */
export interface SocketListener {
  readonly socketPath: string;
  /** Of the socket; another process has another one. */
  readonly incarnation: string;
  /** The connection has broken, and was not closed here. */
  gone(): boolean;
}

interface Call {
  readonly subject: string;
  readonly listener: SocketListener;
  /** Equal for repeats of one call. */
  readonly text: () => string;
}

export interface CallDoubts {
  /** `told`: the process itself said ABORTED. */
  add(call: Call & { readonly words: string; readonly told: boolean; readonly opId: string }): void;
  ended(call: Call): void;
  /** Why the subject is in doubt, in one sentence; with a path only of calls that were sent to that socket. */
  of(subject: string, socketPath?: string): string | undefined;
  /** Those that are remembered, and one without a subject when some are not. */
  all(): readonly { readonly subject: string; readonly opId: string; readonly words: string }[];
}

interface Doubt {
  readonly text: string;
  readonly listener: SocketListener;
  readonly told: boolean;
  readonly words: string;
  readonly opId: string;
}

/** U1 */
const isEndedBy = ({ listener, told, text }: Doubt, by: SocketListener, answered: string): boolean => {
  if (listener.socketPath !== by.socketPath) return false;
  if (listener.incarnation === by.incarnation) return told && text === answered;
  return listener.gone();
};

export function createCallDoubts({
  clock,
  most = 4_096,
}: {
  readonly clock: Clock;
  readonly most?: number;
}): CallDoubts {
  const doubts = new Map<string, readonly Doubt[]>();
  let count = 0;
  /** U2 */
  let forgotten = false;

  const put = (subject: string, before: readonly Doubt[], after: readonly Doubt[]): void => {
    count += after.length - before.length;
    if (after.length === 0) doubts.delete(subject);
    else doubts.set(subject, after);
  };

  const forgottenWords = (): string | undefined =>
    forgotten ? `more than ${most} calls had no final answer of the plugin, and not all are remembered` : undefined;

  return {
    add({ subject, listener, told, text, words, opId }) {
      const before = doubts.get(subject) ?? [];
      const made: Doubt = {
        text: text(),
        listener,
        told,
        opId,
        words: `${words}, sent to ${listener.socketPath}, had no final answer of the plugin at ${new Date(clock.now()).toISOString()}`,
      };
      const isRepeat = (one: Doubt): boolean =>
        one.text === made.text && one.told === told && one.listener === listener;
      if (before.some(isRepeat)) return;
      if (count >= most) forgotten = true;
      else put(subject, before, [...before, made]);
    },
    ended({ subject, listener, text }) {
      const before = doubts.get(subject);
      if (before === undefined) return;
      const answered = text();
      put(
        subject,
        before,
        before.filter((one) => !isEndedBy(one, listener, answered)),
      );
    },
    of(subject, socketPath) {
      const first = doubts
        .get(subject)
        ?.find(({ listener }) => listener.socketPath === (socketPath ?? listener.socketPath));
      return first === undefined ? forgottenWords() : first.words;
    },
    all() {
      const words = forgottenWords();
      return [
        ...[...doubts].flatMap(([subject, all]) => all.map(({ opId, words }) => ({ subject, opId, words }))),
        ...(words === undefined ? [] : [{ subject: "", opId: "", words }]),
      ];
    },
  };
}
