import type { CallOutcome } from "@holdfast/csi/outcome";
import { verdictOf } from "@holdfast/csi/outcome";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { beforeEach, describe, expect, test } from "vitest";
import { equalInstances } from "../../../../test/support/controller/equal-instances.ts";
import { volumeRecord } from "../domain/testing/record-fixtures.ts";
import type { VolumeRef } from "../domain/volume/volume.ts";
import { createSecrets } from "../secrets/secrets.ts";
import { createControllerPlugins } from "./controller-plugins.ts";
import type { PluginInstance } from "./plugin-calls.ts";

/** What the backend has, by name, as a plugin that makes the wrong sizes would have it. */
let made: Map<string, string>;
let calls: string[];
let sourceGone: boolean;
let actual: bigint;
/** Other volumes, by the storage that they stand for. */
let owners: Map<string, VolumeRef>;

const answer = (method: string, request: { readonly name?: string; readonly volumeContentSource?: unknown }) => {
  calls.push(method);
  if (method === "CreateVolume" && sourceGone && request.volumeContentSource !== undefined) {
    const verdict = verdictOf("create", "NOT_FOUND");
    const failure = {
      method,
      plugin: "p",
      code: "NOT_FOUND",
      verdict,
      message: "no such snapshot",
      sent: true,
      answered: true,
    };
    return { outcome: verdict.outcome, failure };
  }
  if (method === "CreateVolume") {
    const volumeId = `ext-of-${request.name}`;
    made.set(request.name ?? "", volumeId);
    return {
      outcome: "done",
      value: { volume: { volumeId, capacityBytes: actual, volumeContext: {}, accessibleTopology: [] } },
    };
  }
  throw new Error(`${method} is not a call of a create`);
};

const instance = {
  id: "/run/p.sock",
  facts: { name: "p", version: "1", controller: { SINGLE_NODE_MULTI_WRITER: "yes" } },
  call: async (method: string, request: object) => answer(method, request) as CallOutcome<never>,
} as unknown as PluginInstance;

const plugins = createControllerPlugins({
  gates: { quiesce: async () => ({ kind: "away", words: "no bar stands here" }) },
  instances: {
    ...equalInstances(() => instance),
    absent: () => ({ facts: undefined, why: "" }),
    names: () => [],
    onChange: () => () => undefined,
  },
  guide: { held: () => undefined },
  secrets: createSecrets({ env: {}, log: createMemoryLogger() }),
  log: createMemoryLogger(),
  ownerOf: async ({ externalId }) => owners.get(externalId),
  announcedByNodes: () => "unknown",
});

const create = (
  capacity: { readonly required: number; readonly limit: number },
  goal: "present" | "absent" = "present",
) =>
  plugins.createVolume(
    volumeRecord([], [], { plugin: "p", name: "n", externalId: "", goal, capacity: { ...capacity, actual: 0 } }),
    { signal: new AbortController().signal, attempt: 1 },
  );

beforeEach(() => {
  made = new Map();
  calls = [];
  sourceGone = false;
  owners = new Map();
});

describe("a plugin that makes another size than was asked for", () => {
  test("too small: it is named, with the reason to delete it, and not deleted under the intent to create", async () => {
    actual = 9n;
    expect(await create({ required: 10, limit: 0 })).toMatchObject({
      kind: "done",
      value: { externalId: "ext-of-n", unfit: expect.stringMatching(/made 9 bytes although at least 10/) },
    });
    expect(calls).toEqual(["CreateVolume"]);
  });

  test("too big: it is kept and waits for a person, as a record out of a backup may be older than its growth", async () => {
    actual = 21n;
    const outcome = await create({ required: 10, limit: 20 });
    expect(outcome).toMatchObject({
      kind: "unknown",
      failure: {
        reason: "PLUGIN_REFUSED",
        advice: "block",
        leaves: true,
        message: expect.stringMatching(/made 21 bytes although at most 20.*holdfast volume delete/),
      },
    });
    expect(calls).toEqual(["CreateVolume"]);
    expect([...made]).toEqual([["n", "ext-of-n"]]);
  });

  test.each([9n, 21n])(
    "of %d bytes, and nobody wants it any more: it is named, to be deleted by its own intent",
    async (size) => {
      actual = size;
      const outcome = await create({ required: 10, limit: 20 }, "absent");
      expect(outcome).toMatchObject({ kind: "done", value: { externalId: "ext-of-n" } });
      expect(outcome).not.toHaveProperty("value.unfit");
      expect(calls).toEqual(["CreateVolume"]);
    },
  );

  test("storage that another record stands for is never deleted for its size", async () => {
    actual = 9n;
    owners.set("ext-of-n", { namespace: "ns", id: "other" });
    const outcome = await create({ required: 10, limit: 0 });
    expect(outcome).toMatchObject({ kind: "done", value: { externalId: "ext-of-n" } });
    expect(outcome).not.toHaveProperty("value.unfit");
  });

  test("a size that is not told is taken as it is", async () => {
    actual = 0n;
    expect(await create({ required: 10, limit: 20 })).toMatchObject({ kind: "done", value: { capacity: 0 } });
    expect(calls).toEqual(["CreateVolume"]);
  });
});

describe("a source that vanished at the backend", () => {
  const copy = (goal: "present" | "absent") =>
    plugins.createVolume(
      volumeRecord([], [], {
        plugin: "p",
        name: "n",
        externalId: "",
        goal,
        contentSource: { kind: "snapshot", id: "s" },
        source: { uid: "s-1", externalId: "ext-s", sizeBytes: 1 },
        capacity: { required: 0, limit: 0, actual: 0 },
      }),
      { signal: new AbortController().signal, attempt: 2 },
    );

  test("C34: ends the create of a volume that is wanted", async () => {
    sourceGone = true;
    expect(await copy("present")).toMatchObject({ kind: "refused", failure: { advice: "fail", code: "NOT_FOUND" } });
    expect(calls).toEqual(["CreateVolume"]);
  });

  test("C30: is never left out of a repeat, also when nobody wants the volume any more", async () => {
    sourceGone = true;
    expect(await copy("absent")).toMatchObject({ kind: "refused", failure: { advice: "fail", code: "NOT_FOUND" } });
    expect(calls).toEqual(["CreateVolume"]);
    expect(made.size).toBe(0);
  });
});
