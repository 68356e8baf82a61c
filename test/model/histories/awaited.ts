/** Product code that waits for answers, run as far as the answers go that are there. */
import { setImmediate as turn } from "node:timers/promises";

export interface Awaited {
  /** The answer of that name; without one the code waits for ever, and the question is noted. */
  ask<T>(name: string, about?: unknown): Promise<T>;
  readonly questions: readonly { readonly name: string; readonly about: unknown }[];
}

/** The answer to a question that fails. */
export const lost = "lost";

export const createAwaited = (answers: Readonly<Record<string, unknown>>): Awaited => {
  const questions: { readonly name: string; readonly about: unknown }[] = [];
  const counts = new Map<string, number>();
  return {
    questions,
    ask<T>(name: string, about?: unknown) {
      const nth = (counts.get(name) ?? 0) + 1;
      counts.set(name, nth);
      const numbered = `${name} ${nth}`;
      const answer = answers[numbered];
      if (answer === lost) return Promise.reject(new Error("no answer"));
      if (answer !== undefined) return Promise.resolve(answer as T);
      questions.push({ name: numbered, about });
      return new Promise<T>(() => undefined);
    },
  };
};

/** Everything that can go on without another answer has gone on. */
export const settle = async (running: Promise<unknown>): Promise<boolean> => {
  let done = false;
  let failed: unknown;
  running.then(
    () => {
      done = true;
    },
    (error: unknown) => {
      failed = error;
    },
  );
  await turn();
  await turn();
  if (failed !== undefined) throw failed;
  return done;
};
