import { allCaps, controllerCaps, groupCaps, nodeCaps, pluginCaps } from "@holdfast/csi/capabilities";
import { describe, expect, test } from "vitest";
import { fingerprintOf } from "./fingerprint.ts";
import { createFingerprintBoard } from "./fingerprint-board.ts";
import { createStorageHealth } from "./storage-health.ts";

const facts = (offers: "yes" | "no") => ({
  name: "sim",
  version: "1",
  manifest: {},
  role: "node" as const,
  plugin: allCaps(pluginCaps, "no"),
  controller: allCaps(controllerCaps, "no"),
  node: { ...allCaps(nodeCaps, "no"), GET_STORAGE_HEALTH: offers },
  group: allCaps(groupCaps, "no"),
});

const lost = { status: 2, reason: "PortalsDown", message: "no portal answers", volumeCapability: undefined };

function rig(offers: "yes" | "no" = "yes") {
  let answer: unknown = { outcome: "done", value: { backendHealth: [] } };
  const calls: string[] = [];
  const requests: unknown[] = [];
  let secrets: Readonly<Record<string, string>> | undefined = {};
  const connection = {
    socketPath: "/p/csi.sock",
    instanceId: "i",
    role: "node" as const,
    pin: () => ({ name: "sim", nodeId: undefined }),
    status: () => ({ phase: "ready" as const, since: 1, facts: facts(offers) }),
    call: async (method: string, request: unknown) => {
      calls.push(method);
      requests.push(request);
      return answer;
    },
  };
  const list = [connection];
  const storage = createStorageHealth({
    list: () => list as never,
    secretsOf: async () => secrets,
    deadlineMs: 100,
    signal: new AbortController().signal,
  });
  return {
    storage,
    calls,
    requests,
    secretsAre: (next: Readonly<Record<string, string>> | undefined) => {
      secrets = next;
    },
    list,
    connection,
    say: (...backendHealth: unknown[]) => {
      answer = { outcome: "done", value: { backendHealth } };
    },
    fail: () => {
      answer = { outcome: "unknown", failure: { code: "UNAVAILABLE" } };
    },
  };
}

describe("the way to the storage", () => {
  test("is asked about, and told with the plugin's fingerprint when it changes", async () => {
    const { storage, say, connection, list } = rig();
    const board = createFingerprintBoard(
      { list: () => list as never, isAdded: () => false, onChange: () => () => undefined },
      storage,
    );
    const before = board.revision();
    await storage.round();
    expect(board.revision()).toBe(before);
    say(lost, { ...lost, status: 9, volumeCapability: { block: {}, accessMode: { mode: 77 } } });
    await storage.round();
    expect(board.all()[0]?.storageHealth).toEqual([
      {
        status: "STORAGE_UNREACHABLE",
        reason: "PortalsDown",
        message: "no portal answers",
        attachmentMode: 0,
        fsType: "",
        accessMode: "",
      },
      {
        status: "UNRECOGNISED(9)",
        reason: "PortalsDown",
        message: "no portal answers",
        attachmentMode: 2,
        fsType: "",
        accessMode: "UNRECOGNISED(77)",
      },
    ]);
    expect(fingerprintOf(connection as never)?.storageHealth).toEqual([]);
    const told = board.revision();
    await storage.round();
    expect(board.revision()).toBe(told);
    board.stop();
  });

  test("[G2] stays as it was while there is no answer, and is over with the instance", async () => {
    const { storage, say, fail, list } = rig();
    say(lost);
    await storage.round();
    fail();
    await storage.round();
    expect(storage.of("/p/csi.sock")).toHaveLength(1);
    list.length = 0;
    await storage.round();
    expect(storage.of("/p/csi.sock")).toEqual([]);
  });

  test("of one plugin is not said of another one in the same allocation", async () => {
    const { storage, say, list } = rig();
    const healthy = { outcome: "done", value: { backendHealth: [] } };
    const beside = { ...list[0], socketPath: "/p/beside.sock", call: async () => healthy };
    list.push(beside as never);
    say(lost);
    await storage.round();
    expect(storage.of("/p/csi.sock")).toHaveLength(1);
    expect(storage.of("/p/beside.sock")).toEqual([]);
  });

  test("[G3] is asked with the secrets that controllers give each time, and not while nobody gives them", async () => {
    const { storage, requests, secretsAre, say } = rig();
    secretsAre({ key: "canary-health" });
    say({ ...lost, message: "canary-health was not taken" });
    await storage.round();
    secretsAre(undefined);
    await storage.round();
    secretsAre({});
    await storage.round();
    expect(requests).toEqual([{ secrets: { key: "canary-health" } }, { secrets: {} }]);
  });

  test("[G3] never tells a secret that the plugin repeats", async () => {
    const { storage, secretsAre, say } = rig();
    secretsAre({ key: "canary-health" });
    say({ ...lost, message: "canary-health was not taken" });
    await storage.round();
    expect(storage.of("/p/csi.sock")).toHaveLength(1);
    expect(JSON.stringify(storage.of("/p/csi.sock"))).not.toContain("canary");
  });

  test("is not asked of a plugin that does not tell", async () => {
    const { storage, calls } = rig("no");
    await storage.round();
    expect(calls).toEqual([]);
  });
});
