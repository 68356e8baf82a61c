import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { expect, it } from "vitest";
import { endOfCalls } from "./end-of-calls.ts";

const build = (idle: Promise<void>, leave = async (): Promise<void> => undefined) => {
  const [taking, work, clock] = [new AbortController(), new AbortController(), createManualClock()];
  const done: string[] = [];
  const drivers = {
    leave: () => {
      done.push(`leave ${taking.signal.aborted} ${work.signal.aborted}`);
      return leave();
    },
    signOff: async () => void done.push(`sign off ${work.signal.aborted}`),
  };
  const end = endOfCalls({ taking, work, drivers, reconcilers: [{ end: () => idle }], clock })();
  return { done, clock, work, end };
};

it("takes nothing new, waits for what is under way, and signs off when no call leaves any more", async () => {
  let ended = (): void => undefined;
  const { done, clock, work, end } = build(new Promise((resolve) => (ended = resolve)));
  await clock.advance(4_999);
  expect([done, work.signal.aborted]).toEqual([["leave true false"], false]);
  ended();
  await end;
  expect(done).toEqual(["leave true false", "sign off true"]);
});

it("waits no longer than five seconds, and ends also where the store is away", async () => {
  const away = async (): Promise<void> => Promise.reject(new Error("the store is away"));
  const { done, clock, end } = build(new Promise(() => undefined), away);
  await clock.advance(5_000);
  await end;
  expect(done).toEqual(["leave true false", "sign off true"]);
});
