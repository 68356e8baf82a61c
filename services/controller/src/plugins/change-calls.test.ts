import { type CallOutcome, type Code, codes, verdictOf } from "@holdfast/csi/outcome";
import { createRefusedCredentials } from "@holdfast/csi/refused-credentials";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { beforeEach, describe, expect, test } from "vitest";
import { equalInstances } from "../../../../test/support/controller/equal-instances.ts";
import type { Outcome } from "../domain/outcome.ts";
import { expandAnswered } from "../domain/size/expand-answer.ts";
import { expansionStarted, expansionWanted } from "../domain/size/expand-change.ts";
import { attachmentRecord, momentAt, volumeRecord } from "../domain/testing/record-fixtures.ts";
import { modificationStarted, modificationWanted, modifyAnswered } from "../domain/volume/modify-change.ts";
import type { VolumeRecord } from "../domain/volume/volume.ts";
import { createSecrets } from "../secrets/secrets.ts";
import { createChangeCalls } from "./change-calls.ts";
import { createPluginCalls, type PluginInstance } from "./plugin-calls.ts";

let requests: { readonly method: string; readonly request: object }[];
let answers: (Code | object)[];

const instance = (capabilities: object = {}): PluginInstance =>
  ({
    id: "/run/p.sock",
    facts: { name: "p", version: "1", controller: { SINGLE_NODE_MULTI_WRITER: "yes", ...capabilities } },
    call: async (method: string, request: object): Promise<CallOutcome<unknown>> => {
      requests.push({ method, request });
      const answer = answers.shift() ?? {};
      if (typeof answer !== "string") return { outcome: "done", value: answer };
      const verdict = verdictOf(method === "ControllerModifyVolume" ? "modify" : "expand", answer);
      return {
        outcome: verdict.outcome as "refused",
        failure: {
          method: method as "ControllerExpandVolume",
          plugin: "p",
          code: answer,
          verdict,
          message: "no",
          sent: true,
          answered: true,
        },
      };
    },
  }) as unknown as PluginInstance;

const callsTo = (found: PluginInstance | undefined) =>
  createChangeCalls(
    createPluginCalls({
      instances: equalInstances(() => found),
      locate: async () => undefined,
      trouble: () => "it is away",
      refused: createRefusedCredentials({ monotonic: () => 0 }),
      secrets: createSecrets({
        scope: { files: [], env: ["EXPAND", "MODIFY"].map((prefix) => ({ prefix, namespaces: [] })), vault: [] },
        env: { EXPAND: '{"k":"expand"}', MODIFY: '{"k":"modify"}' },
        log: createMemoryLogger(),
      }),
    }),
  );

const call = { signal: new AbortController().signal, attempt: 1 };
const volume = volumeRecord([], [], {
  plugin: "p",
  capacity: { required: 100, limit: 0, actual: 100 },
  secretRefs: { controllerExpand: "env:EXPAND", modify: "env:MODIFY" },
  capabilities: [
    {
      attachmentMode: "FILE_SYSTEM",
      accessMode: "SINGLE_NODE_WRITER",
      fsType: "ext4",
      mountFlags: [],
      volumeMountGroup: "",
    },
  ],
});

beforeEach(() => {
  requests = [];
  answers = [];
});

describe("ControllerExpandVolume", () => {
  test("[O55] is asked for the size wanted afterwards, with how the volume is used and its own secrets", async () => {
    answers = [{ capacityBytes: 200n, nodeExpansionRequired: true }];
    const outcome = await callsTo(instance()).expandVolume(volume, { required: 200, limit: 300 }, call);
    expect(outcome).toEqual({ kind: "done", value: { capacity: 200, nodesFollow: true } });
    expect(requests).toMatchObject([
      {
        method: "ControllerExpandVolume",
        request: {
          volumeId: "ext-1",
          capacityRange: { requiredBytes: 200n, limitBytes: 300n },
          secrets: { k: "expand" },
          volumeCapability: { mount: { fsType: "ext4" } },
        },
      },
    ]);
  });

  test.each([
    [
      "less than was asked for is no success",
      150n,
      { kind: "unknown", failure: { reason: "PLUGIN_REFUSED", advice: "block" } },
    ],
    ["0: the plugin tells no sizes", 0n, { kind: "done", value: { capacity: 200 } }],
    ["more than was asked for", 250n, { kind: "done", value: { capacity: 250 } }],
  ])("answered with %s", async (_what, capacityBytes, outcome) => {
    answers = [{ capacityBytes, nodeExpansionRequired: false }];
    expect(await callsTo(instance()).expandVolume(volume, { required: 200, limit: 0 }, call)).toMatchObject(outcome);
  });

  test("without an instance is not sent", async () => {
    expect(await callsTo(undefined).expandVolume(volume, { required: 200, limit: 0 }, call)).toMatchObject({
      kind: "unknown",
      failure: { reason: "PLUGIN_NOT_READY" },
    });
    expect(requests).toEqual([]);
  });
});

test("[O59] [C62] ControllerModifyVolume is sent the keys that change and its own secrets", async () => {
  expect(await callsTo(instance()).modifyVolume(volume, { tier: "gold" }, call)).toEqual({
    kind: "done",
    value: undefined,
  });
  expect(requests).toEqual([
    {
      method: "ControllerModifyVolume",
      request: { volumeId: "ext-1", secrets: { k: "modify" }, mutableParameters: { tier: "gold" } },
    },
  ]);
});

describe("ControllerGetVolume", () => {
  const told = {
    volume: { volumeId: "ext-1", capacityBytes: 7n },
    status: { volumeCondition: { abnormal: true, message: "hot" } },
  };
  test("is asked of plugins that have it; the condition is believed of those that announce it", async () => {
    answers = [told, told];
    expect(await callsTo(instance()).lookAt(volume, call)).toBeUndefined();
    expect(requests).toEqual([]);
    expect(await callsTo(instance({ GET_VOLUME: "yes" })).lookAt(volume, call)).toEqual({ capacity: 7 });
    expect(await callsTo(instance({ GET_VOLUME: "yes", VOLUME_CONDITION: "yes" })).lookAt(volume, call)).toEqual({
      capacity: 7,
      condition: { abnormal: true, message: "hot" },
    });
  });
});

/** By hand from docs/growth.md: where each code leads at the first attempt, and after one that was not answered. */
const uncertain = "UNCERTAIN";
const expected: Readonly<Record<Exclude<Code, "OK">, readonly [first: string, inDoubt: string]>> = {
  CANCELLED: [uncertain, uncertain],
  UNKNOWN: [uncertain, uncertain],
  DEADLINE_EXCEEDED: [uncertain, uncertain],
  RESOURCE_EXHAUSTED: [uncertain, uncertain],
  INTERNAL: [uncertain, uncertain],
  UNAVAILABLE: [uncertain, uncertain],
  DATA_LOSS: [uncertain, uncertain],
  ABORTED: ["UNCERTAIN, running", "UNCERTAIN, running"],
  INVALID_ARGUMENT: ["REFUSED", "UNCERTAIN, blocked"],
  OUT_OF_RANGE: ["REFUSED", "UNCERTAIN, blocked"],
  UNIMPLEMENTED: ["REFUSED", "UNCERTAIN, blocked"],
  PERMISSION_DENIED: ["REFUSED", "UNCERTAIN, blocked"],
  UNAUTHENTICATED: ["REFUSED", "UNCERTAIN, blocked"],
  NOT_FOUND: ["WANTED, blocked", "UNCERTAIN, blocked"],
  ALREADY_EXISTS: ["WANTED, blocked", "UNCERTAIN, blocked"],
  FAILED_PRECONDITION: ["WANTED, blocked", "UNCERTAIN, blocked"],
};

const standing = (after: VolumeRecord | null, part: "expansion" | "modification"): string => {
  const found = after?.[part];
  const blocked = found?.blocked === undefined ? "" : ", blocked";
  return `${found?.state}${blocked}${after?.intent === undefined ? "" : ", running"}`;
};

const at = momentAt(1_000);
const started = (part: "expansion" | "modification", inDoubt: boolean): VolumeRecord => {
  const wanted =
    part === "expansion"
      ? expansionStarted(
          expansionWanted(volume, { required: 200, limit: 0 }, undefined, at).volume ?? volume,
          "any-time",
          at,
        )
      : modificationStarted(modificationWanted(volume, { tier: "gold" }, undefined, at).volume ?? volume, "yes", at);
  const record = wanted.volume ?? volume;
  const found = record[part];
  return inDoubt && found !== undefined ? { ...record, [part]: { ...found, uncertainSince: 1 } } : record;
};

const answered = (record: VolumeRecord, part: "expansion" | "modification", outcome: Outcome<unknown>) => {
  if (outcome.kind === "done") throw new Error("no failure");
  return part === "expansion" ? expandAnswered(record, outcome, undefined, at) : modifyAnswered(record, outcome, at);
};

const failures = codes.filter((code) => code !== "OK");

describe.each(["expansion", "modification"] as const)("every code: %s", (part) => {
  const ask = async (code: Code): Promise<Outcome<unknown>> => {
    answers = [code];
    const calls = callsTo(instance());
    return part === "expansion"
      ? await calls.expandVolume(volume, { required: 200, limit: 0 }, call)
      : await calls.modifyVolume(volume, { tier: "gold" }, call);
  };

  test.each(failures)("%s", async (code) => {
    const [first, inDoubt] = expected[code];
    const outcome = await ask(code);
    const once = answered(started(part, false), part, outcome).volume;
    expect(standing(once, part)).toBe(first);
    const again = answered(started(part, true), part, outcome).volume;
    expect(standing(again, part)).toBe(inDoubt);
    for (const after of [once, again]) {
      expect(after?.capacity).toEqual(volume.capacity);
      expect(after?.mutableParameters).toEqual(volume.mutableParameters);
    }
  });
});

test.each(["expansion", "modification"] as const)(
  "what was never sent leaves the %s as it was: wanted, and in no doubt",
  async (part) => {
    const calls = callsTo(undefined);
    const outcome =
      part === "expansion"
        ? await calls.expandVolume(volume, { required: 200, limit: 0 }, call)
        : await calls.modifyVolume(volume, { tier: "gold" }, call);
    expect(standing(answered(started(part, false), part, outcome).volume, part)).toBe("WANTED");
    expect(standing(answered(started(part, true), part, outcome).volume, part)).toBe("UNCERTAIN");
  },
);

test("[O55] FAILED_PRECONDITION of a volume in use waits for the last node to let go", async () => {
  answers = ["FAILED_PRECONDITION"];
  const used = { ...started("expansion", false), attachments: { n1: attachmentRecord("n1") } };
  const outcome = await callsTo(instance()).expandVolume(used, { required: 200, limit: 0 }, call);
  const after = answered(used, "expansion", outcome).volume;
  expect(after?.expansion).toMatchObject({ state: "WANTED", onlyUnused: true, blocked: { reason: "EXPAND_IN_USE" } });
});
