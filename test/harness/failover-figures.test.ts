import { expect, it } from "vitest";
import { figuresOfOutput, percentile, refusedByGeneration } from "./failover-figures.ts";

const line = (message: string): string => JSON.stringify({ level: "warn", message });

it("counts a gate that shuts after it was open, in each life of a process, and each loss once", () => {
  const output = [
    "--- controller (1)",
    line("the store grants nothing"),
    line("the store may grant"),
    line("the store grants nothing"),
    line("the store grants nothing"),
    line("the store may grant"),
    line("its newest commit has number 7, and 9 was seen here: 2 commits are missing"),
    "--- second controller (2)",
    line("the store grants nothing"),
    line("its newest commit has number 7, and 8 was seen here: 1 commit is missing"),
    line("its newest commit has number 20, and 900 was seen here: its last vetting and every commit since are missing"),
  ].join("\n");
  expect(figuresOfOutput(output)).toEqual({ lossesTold: 2, lostTold: 2, gatesShut: 1 });
});

it("adds up what the agents have refused for its generation", () => {
  const page = (operation: string, code: string, count: number): string =>
    `holdfast_order_seconds_count{plugin="sim",operation="${operation}",code="${code}"} ${count}`;
  const first = [page("publish", "OK", 9), page("publish", "GENERATION", 2), page("release", "GENERATION", 1)];
  expect(refusedByGeneration([first.join("\n"), page("publish", "GENERATION", 3)])).toEqual({ publish: 5, release: 1 });
});

it("answers the value below which a part of them is", () => {
  const values = Array.from({ length: 100 }, (_, i) => 100 - i);
  expect([percentile(values, 0.5), percentile(values, 0.99), percentile([], 0.5)]).toEqual([51, 100, 0]);
});
