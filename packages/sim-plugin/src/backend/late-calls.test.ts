import { expect, test } from "vitest";
import type { Admission } from "./answer.ts";
import { createBackend } from "./backend.ts";
import type { Call } from "./call.ts";
import { createDelays, type LateCalls } from "./late-calls.ts";
import { writer } from "./test-driver.ts";

const late: LateCalls = { seed: 5, share: 0.05, slowMs: [5_000, 10_000], fastMs: [1, 50] };
const count = 4_000;
const draws = (settings: LateCalls) => {
  const next = createDelays(settings);
  return Array.from({ length: count }, (_, i) => next(`volume ${i % 40}`));
};

test("so many calls are slow as told, all of them within their bounds, half of them work first", () => {
  const slow = draws(late).filter(({ delayMs }) => delayMs >= 5_000);
  expect(slow.length / count).toBeGreaterThan(0.035);
  expect(slow.length / count).toBeLessThan(0.065);
  expect(Math.max(...slow.map(({ delayMs }) => delayMs))).toBeLessThanOrEqual(10_000);
  expect(Math.max(...draws({ ...late, share: 0 }).map(({ delayMs }) => delayMs))).toBeLessThanOrEqual(50);
  const first = draws(late).filter(({ worksFirst }) => worksFirst).length / count;
  expect(first).toBeGreaterThan(0.45);
  expect(first).toBeLessThan(0.55);
});

test("the same seed draws the same, another seed another; when the work is done can be told", () => {
  expect(draws(late)).toEqual(draws(late));
  expect(draws(late)).not.toEqual(draws({ ...late, seed: 6 }));
  for (const work of ["arrival", "answer"] as const)
    expect(new Set(draws({ ...late, work }).map(({ worksFirst }) => worksFirst))).toEqual(
      new Set([work === "arrival"]),
    );
});

test("the calls of a volume take as long whatever other volumes do between them", () => {
  const [alone, among] = [createDelays(late), createDelays(late)];
  const lone = [alone("a"), alone("a"), alone("a")];
  expect([among("a"), among("b"), among("a"), among("b"), among("a")].filter((_, i) => i % 2 === 0)).toEqual(lone);
});

test("a backend delays the calls that change something, and no others", () => {
  const backend = createBackend({ lateCalls: { ...late, share: 1 }, latency: { "*": 7 } });
  backend.attach({ name: "controller", role: "controller" });
  const begin = (method: string, request: object): Admission =>
    backend.begin({ instance: "controller", method, request } as unknown as Call);
  const made = begin("CreateVolume", {
    name: "one",
    volumeCapabilities: [writer],
    parameters: {},
    secrets: {},
    mutableParameters: {},
  });
  expect(made).toMatchObject({ kind: "open" });
  expect("delayMs" in made && made.delayMs).toBeGreaterThanOrEqual(5_000);
  expect(begin("Probe", {})).toMatchObject({ kind: "open", delayMs: 7, worksFirst: false });
});
