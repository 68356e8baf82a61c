import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { expect, onTestFinished, test } from "vitest";
import { createControllerAddresses } from "./controller-addresses.ts";

function startAddresses(controllers: readonly string[], names: Record<string, readonly string[] | Error>) {
  const clock = createManualClock();
  const life = new AbortController();
  const log = createMemoryLogger();
  const told: string[][] = [];
  let lookups = 0;
  const addresses = createControllerAddresses({
    controllers,
    resolve: async (host) => {
      lookups += 1;
      const answer = names[host] ?? [];
      if (answer instanceof Error) throw answer;
      return answer;
    },
    onAddresses: (known) => void told.push(known.map(({ target }) => target)),
    clock,
    log,
    signal: life.signal,
  });
  const running = addresses.run();
  onTestFinished(async () => {
    life.abort(new DOMException("the test is over", "AbortError"));
    await running;
    expect(clock.pending()).toBe(0);
  });
  return { addresses, clock, log, told, lookups: () => lookups };
}

test("an address of a name that comes, one that goes: told within 30 seconds, or a second after a failed dial", async () => {
  const names: Record<string, readonly string[]> = { cell: ["10.0.0.2", "10.0.0.1", "10.0.0.2"] };
  const { addresses, clock, told, lookups } = startAddresses(["cell:7602"], names);
  await clock.advance(0);
  expect(told.at(-1)).toEqual(["10.0.0.1:7602", "10.0.0.2:7602"]);
  names["cell"] = ["10.0.0.2", "fd00::3"];
  await clock.advance(29_999);
  expect(lookups()).toBe(1);
  await clock.advance(1);
  expect(told.at(-1)).toEqual(["10.0.0.2:7602", "[fd00::3]:7602"]);
  names["cell"] = ["10.0.0.4"];
  for (let dial = 0; dial < 100; dial += 1) addresses.lookAgain();
  await clock.advance(1_000);
  expect(told.at(-1)).toEqual(["10.0.0.4:7602"]);
  expect(lookups()).toBe(3);
});

test("what is no name needs no lookup", async () => {
  const { told, lookups } = startAddresses(["10.0.0.1:1", "[::1]:2", "unix:///run/c.sock"], {});
  expect(told).toEqual([["10.0.0.1:1", "[::1]:2", "unix:///run/c.sock"]]);
  expect(lookups()).toBe(0);
});

test("Addresses-1: a name that does not resolve is told once an outage, and keeps its last addresses", async () => {
  const names: Record<string, readonly string[] | Error> = { cell: ["10.0.0.1"], other: new Error("ENOTFOUND") };
  const { clock, log, told } = startAddresses(["cell:1", "other:2"], names);
  await clock.advance(0);
  names["cell"] = new Error("SERVFAIL");
  await clock.advance(90_000);
  expect(told.at(-1)).toEqual(["10.0.0.1:1"]);
  expect(log.lines.map(({ fields }) => fields?.["name"])).toEqual(["other", "cell"]);
  names["other"] = ["10.0.0.2"];
  await clock.advance(30_000);
  expect(told.at(-1)).toEqual(["10.0.0.1:1", "10.0.0.2:2"]);
});

test("two names of one address are one controller; of a name with too many addresses some are dialled, which is told", async () => {
  const many = Array.from({ length: 70 }, (_, at) => `10.0.0.${at + 100}`);
  const { clock, log, told } = startAddresses(["a:1", "b:1", "many:2"], { a: ["10.0.0.1"], b: ["10.0.0.1"], many });
  await clock.advance(0);
  expect(told.at(-1)).toHaveLength(65);
  expect(log.lines).toMatchObject([{ level: "warn", message: expect.stringMatching(/70 addresses.*first 64/) }]);
});

test("Addresses-2: at most two lookups hold a thread", async () => {
  const life = new AbortController();
  let [running, most] = [0, 0];
  const addresses = createControllerAddresses({
    controllers: ["a:1", "b:1", "c:1", "d:1"],
    resolve: async () => {
      running += 1;
      most = Math.max(most, running);
      await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
      return ["10.0.0.1"];
    },
    onAddresses: () => undefined,
    clock: createManualClock(),
    log: createMemoryLogger(),
    signal: life.signal,
  });
  const run = addresses.run();
  for (let turn = 0; turn < 10; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  life.abort();
  await run;
  expect(most).toBe(2);
});
