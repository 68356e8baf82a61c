import { expect, test } from "vitest";
import { createManualClock } from "./async/manual-clock.ts";
import { watchDescriptors } from "./descriptor-watch.ts";
import { createMemoryLogger } from "./log/logger.ts";

const start = () => {
  const clock = createManualClock();
  const log = createMemoryLogger();
  const end = new AbortController();
  const world: { code: string | undefined; probes: number } = { code: undefined, probes: 0 };
  const probe = (): void => {
    world.probes += 1;
    if (world.code !== undefined) throw Object.assign(new Error(world.code), { code: world.code });
  };
  watchDescriptors({ log, signal: end.signal, clock, probe });
  const said = () => {
    const lines = log.lines.map(({ level, fields }) => [level, fields["code"]]);
    log.clear();
    return lines;
  };
  return { world, end, look: () => clock.advance(5_000), said };
};

test("that no descriptor is left is said once, another reason anew, and that there are some again once", async () => {
  const { world, look, said } = start();
  await look();
  expect(said()).toEqual([]);
  world.code = "EMFILE";
  await look();
  await look();
  expect(said()).toEqual([["error", "EMFILE"]]);
  world.code = "ENFILE";
  await look();
  expect(said()).toEqual([["error", "ENFILE"]]);
  world.code = undefined;
  await look();
  await look();
  expect(said()).toEqual([["info", "ENFILE"]]);
});

test("another failure says nothing of descriptors, and nothing is looked at after the end", async () => {
  const { world, end, look, said } = start();
  world.code = "EACCES";
  await look();
  expect([said(), world.probes]).toEqual([[], 1]);
  end.abort();
  await look();
  expect(world.probes).toBe(1);
});
