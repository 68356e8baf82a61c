// biome-ignore-all lint/suspicious/noThenProperty: a verdict says what then; its value is a word, and nothing awaits a verdict.
import { chmod, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { CallOutcome, Code } from "@holdfast/csi/outcome";
import { createRefusedCredentials } from "@holdfast/csi/refused-credentials";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { equalInstances } from "../../../../test/support/controller/equal-instances.ts";
import { attachmentRecord, volumeRecord } from "../domain/testing/record-fixtures.ts";
import { createSecrets } from "../secrets/secrets.ts";
import { createAttachCalls } from "./attach-calls.ts";
import { createPluginCalls, type PluginInstance } from "./plugin-calls.ts";
import { createVolumeCalls } from "./volume-calls.ts";

const clock = createManualClock();
let dir: string;
let file: string;
let made: string[];
let answer: Code;
beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-refused-"));
  file = path.join(dir, "secret.json");
  made = [];
  answer = "UNAUTHENTICATED";
  await put("first");
});
afterEach(() => rm(dir, { recursive: true, force: true }));

/** A file of another inode is another version, whatever the resolution of its times. */
const put = async (token: string): Promise<void> => {
  await rm(file, { force: true });
  await writeFile(`${file}.${token}`, JSON.stringify({ token }));
  await chmod(`${file}.${token}`, 0o600);
  await rename(`${file}.${token}`, file);
};

const outcome = (method: string): CallOutcome<never> =>
  (answer === "OK"
    ? { outcome: "done", value: { publishContext: {} } }
    : {
        outcome: answer === "UNAVAILABLE" ? "unknown" : "refused",
        failure: {
          method,
          plugin: "p",
          code: answer,
          message: "no",
          verdict: { outcome: "refused", then: "block", needs: "credentials" },
        },
      }) as unknown as CallOutcome<never>;

const instance = {
  id: "one",
  facts: { version: "1", controller: { SINGLE_NODE_MULTI_WRITER: "yes" } },
  call: async (method: string, { secrets }: { secrets: Record<string, string> }) => {
    made.push(`${method} ${secrets["token"] ?? ""}`);
    return outcome(method);
  },
} as unknown as PluginInstance;

const stored = new Map<number | undefined, string>();
const pluginCalls = () =>
  createPluginCalls({
    instances: equalInstances(() => instance),
    locate: async () => undefined,
    trouble: () => "",
    secrets: createSecrets({
      scope: { files: [{ name: "test", dir: path.dirname(file), namespaces: [] }], env: [], vault: [] },
      log: createMemoryLogger(),
      env: {},
      stored: {
        read: async (_name, version) => {
          const token = stored.get(version);
          return token === undefined
            ? undefined
            : { values: { token }, version: version ?? 2, createdAt: 0, kept: false };
        },
      },
    }),
    refused: createRefusedCredentials(clock),
  });
const calls = () => createAttachCalls(pluginCalls());
const signal = new AbortController().signal;
const volume = volumeRecord([], [], { plugin: "p", externalId: "x" });
const attachment = (secretRef?: string) =>
  attachmentRecord("n1", { nodeId: "i-1", ...(secretRef === undefined ? {} : { secretRef }) });

describe("a call that was refused for its credentials", () => {
  test("is made again only once the secret is another one", async () => {
    const { publish } = calls();
    const publishing = (attempt: number) => publish(volume, attachment(`file:${file}`), { signal, attempt });
    const first = await publishing(1);
    expect(first).toMatchObject({ kind: "refused", failure: { reason: "CREDENTIALS_REFUSED" } });
    expect(await publishing(2)).toEqual(first);
    expect(await publishing(3)).toEqual(first);
    expect(made).toEqual(["ControllerPublishVolume first"]);
    await put("second");
    await publishing(4);
    await publishing(5);
    expect(made).toEqual(["ControllerPublishVolume first", "ControllerPublishVolume second"]);
  });

  test("is made for whoever asks anew, and after an hour", async () => {
    const { publish } = calls();
    await publish(volume, attachment(`file:${file}`), { signal, attempt: 1 });
    await publish(volume, attachment(`file:${file}`), { signal, attempt: 1 });
    await clock.advance(3_600_000);
    await publish(volume, attachment(`file:${file}`), { signal, attempt: 2 });
    expect(made).toHaveLength(3);
  });

  test("stands in nobody else's way, and without a secret or a refusal nothing is remembered", async () => {
    const { publish, unpublish } = calls();
    await publish(volume, attachment(`file:${file}`), { signal, attempt: 1 });
    await unpublish(volume, attachment(`file:${file}`), { signal, attempt: 2 });
    await publish(volume, attachmentRecord("n2", { nodeId: "i-2", secretRef: `file:${file}` }), { signal, attempt: 2 });
    for (const attempt of [1, 2]) await publish(volume, attachment(), { signal, attempt });
    answer = "UNAVAILABLE";
    for (const attempt of [1, 2])
      await publish(volumeRecord([], [], { plugin: "p", id: "w" }), attachment(`file:${file}`), { signal, attempt });
    expect(made).toHaveLength(7);
  });
});

describe("the secret of a detach", () => {
  test("is the version that the attach was done with; it is told once that was done", async () => {
    stored.set(undefined, "new").set(2, "new").set(1, "old");
    answer = "OK";
    const used: string[] = [];
    const call = { signal, attempt: 1, usedSecret: (pinned: string) => void used.push(pinned) };
    await calls().publish(volume, attachment("secret:default/s"), call);
    expect(used).toEqual(["secret:default/s@2"]);
    await calls().unpublish(volume, attachment("secret:default/s@1"), { signal, attempt: 1 });
    expect(made).toEqual(["ControllerPublishVolume new", "ControllerUnpublishVolume old"]);
  });

  test("is the newest one where that version is refused, or gone", async () => {
    stored.set(undefined, "new").set(2, "new").set(1, "old");
    await calls().unpublish(volume, attachment("secret:default/s@1"), { signal, attempt: 1 });
    stored.delete(1);
    await calls().unpublish(volume, attachment("secret:default/s@1"), { signal, attempt: 1 });
    expect(made).toEqual([
      "ControllerUnpublishVolume old",
      "ControllerUnpublishVolume new",
      "ControllerUnpublishVolume new",
    ]);
  });

  test("is the one that the volume refers to by now, where its own is refused: or nobody could ever correct it", async () => {
    stored.set(undefined, "new").set(2, "new").set(1, "old");
    const corrected = volumeRecord([], [], {
      plugin: "p",
      externalId: "x",
      secretRefs: { controllerPublish: `file:${file}` },
    });
    await calls().unpublish(corrected, attachment("secret:default/s@1"), { signal, attempt: 1 });
    await calls().unpublish(corrected, attachment("secret:default/gone@7"), { signal, attempt: 1 });
    await calls().unpublish(corrected, attachment(`file:${file}`), { signal, attempt: 1 });
    answer = "OK";
    await calls().unpublish(corrected, attachment("secret:default/s@1"), { signal, attempt: 1 });
    expect(made.map((call) => call.split(" ")[1])).toEqual(["old", "new", "first", "new", "first", "first", "old"]);
  });

  test("is sent once each of them, however often the detach is tried", async () => {
    stored.set(undefined, "new").set(2, "new").set(1, "old");
    const { unpublish } = calls();
    for (const attempt of [1, 2, 3]) await unpublish(volume, attachment("secret:default/s@1"), { signal, attempt });
    expect(made).toEqual(["ControllerUnpublishVolume old", "ControllerUnpublishVolume new"]);
  });
});

describe("the secret of a delete", () => {
  test("that was refused is sent again only once it is another one, as for every call", async () => {
    const { deleteVolume } = createVolumeCalls({
      calls: pluginCalls(),
      log: createMemoryLogger(),
      ownerOf: async () => undefined,
    });
    const leaving = volumeRecord([], [], { plugin: "p", externalId: "x", secretRefs: { delete: `file:${file}` } });
    const first = await deleteVolume(leaving, { signal, attempt: 1 });
    expect(first).toMatchObject({ kind: "refused", failure: { reason: "CREDENTIALS_REFUSED" } });
    expect(await deleteVolume(leaving, { signal, attempt: 2 })).toEqual(first);
    await put("second");
    await deleteVolume(leaving, { signal, attempt: 3 });
    expect(made).toEqual(["DeleteVolume first", "DeleteVolume second"]);
  });
});
