import type { Quiesced } from "@holdfast/csi/open-calls";
import { beforeEach, describe, expect, test } from "vitest";
import type { GateAnswer } from "../domain/bar.ts";
import { nameOnNode } from "../domain/plugin/instance-name.ts";
import { volumeRecord } from "../domain/testing/record-fixtures.ts";
import type { Bar } from "../domain/volume/volume.ts";
import { createGates } from "./gates.ts";

const { signal } = new AbortController();
const order = { gen: 1, sequence: 7 };
const volume = volumeRecord([], [], { plugin: "p", name: "pvc-1", externalId: "v" });

let asked: unknown[];
let beside: Quiesced;
let onNode: GateAnswer;

const gates = createGates(
  {
    async quiesce(...question) {
      asked.push(question);
      return beside;
    },
  },
  {
    async quiesce(...question) {
      asked.push(question);
      return onNode;
    },
  },
);

const ask = (bar: Pick<Bar, "op" | "via" | "gate">) => gates.quiesce(volume, bar as Bar, order, signal);

beforeEach(() => {
  asked = [];
  beside = { idle: true };
  onNode = { kind: "away", words: "no stream" };
});

describe("the gate of a bar", () => {
  test("is asked as the life that had the call, over the stream of its node", async () => {
    expect(await ask({ op: "attach", via: nameOnNode("p", "n1"), gate: "life-1" })).toEqual(onNode);
    const question = { gate: "life-1", subject: "volume v", order, waitMs: 10_000 };
    expect(asked).toEqual([["n1", "p", question, signal]]);
  });

  test("is asked about the name of a volume that is made, and about the id of any other", async () => {
    for (const op of ["create", "delete"] as const) await ask({ op, via: "/run/p.sock" });
    expect(asked).toEqual(
      ["volume named pvc-1", "volume v"].map((subject) => ["p", subject, order, 10_000, signal, "/run/p.sock"]),
    );
  });

  test.each([
    [{ idle: true }, { kind: "idle" }],
    [
      { idle: false, words: "one is open" },
      { kind: "open", words: "one is open" },
    ],
    [
      { idle: false, words: "a later one", superseded: true },
      { kind: "open", words: "a later one" },
    ],
    [
      { idle: false, words: "nobody knows", doubt: true },
      { kind: "in-doubt", words: "nobody knows" },
    ],
  ] as const)("is this process for a socket: %j is %j", async (quiesced, answer) => {
    beside = quiesced;
    expect(await ask({ op: "attach", via: "/run/p.sock" })).toEqual(answer);
  });
});
