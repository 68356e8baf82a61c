import { describe, expect, test } from "vitest";
import {
  anyCaller,
  modelPaths,
  permitOrder,
  releaseOrder,
  startModelAgent,
  volumeRef,
} from "../testing/model-agent.ts";

const target = modelPaths.of(volumeRef.plugin, volumeRef.externalId).target("a");
const withFlags = (...mountFlags: readonly string[]) => {
  const order = permitOrder("a", 5);
  return { ...order, contents: { ...order.contents, mountFlags } };
};

describe("[O1] a mount option that is not on the list", () => {
  test("never reaches the plugin: the claim ends, and the same permit is answered the same again", async () => {
    const { volumes, host, ledger } = await startModelAgent();
    const ended = { kind: "not-mounted", failure: { reason: "MOUNT_OPTION_FORBIDDEN", method: "", code: "" } };
    expect(await volumes().publish(withFlags("noatime", "uid=0"), anyCaller)).toMatchObject(ended);
    expect(host.calls).toEqual([]);
    expect(ledger().volume(volumeRef.volumeUid)?.claims).toEqual({});
    expect(await volumes().publish(withFlags("noatime", "uid=0"), anyCaller)).toMatchObject(ended);
    expect(await volumes().release(releaseOrder("a", 5), anyCaller)).toMatchObject({ kind: "released" });
    expect(host.calls).toEqual([]);
  });

  test("is known for good: after a restart it is the same answer", async () => {
    const agent = await startModelAgent();
    await agent.volumes().publish(withFlags("suid"), anyCaller);
    await agent.start();
    const again = await agent.volumes().publish(withFlags("suid"), anyCaller);
    expect(again).toMatchObject({ kind: "not-mounted", message: expect.stringContaining("MOUNT_OPTION_FORBIDDEN") });
  });
});

describe("[O2] what the plugin left out", () => {
  test("nothing: no process is started for it", async () => {
    const { volumes, host } = await startModelAgent();
    expect(await volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({ kind: "published" });
    expect(host.mounting.remounts).toEqual([]);
  });

  test("is added to the target alone", async () => {
    const { volumes, host } = await startModelAgent();
    host.mounting.pluginOptions = ["rw", "noexec"];
    expect(await volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({ kind: "published" });
    expect(host.mounting.remounts).toEqual([`mount remount,bind,rw,noexec,nosuid,nodev none ${target}`]);
  });

  test("read-only is really read-only, by the claim or by its mode", async () => {
    for (const changes of [{ readOnly: true }, { accessMode: "MULTI_NODE_READER_ONLY" }] as const) {
      const { volumes, host } = await startModelAgent();
      await volumes().publish(permitOrder("a", 5, changes), anyCaller);
      expect(host.mounting.remounts).toEqual([`mount remount,bind,nosuid,nodev,ro none ${target}`]);
    }
  });

  test.each([
    ["MOUNT_OPTIONS_MISSING", {}],
    ["READ_ONLY_MISSING", { readOnly: true }],
  ] as const)("and cannot be added: %s, all is undone, and the claim ends", async (reason, changes) => {
    const { volumes, host, ledger } = await startModelAgent();
    host.mounting.pluginOptions = ["rw"];
    host.mounting.remountsWork = false;
    const answer = await volumes().publish(permitOrder("a", 5, changes), anyCaller);
    expect(answer).toMatchObject({
      kind: "not-mounted",
      failure: { reason, method: "NodePublishVolume", code: "OK" },
      message: expect.stringContaining("not permitted"),
    });
    expect(host.mountedPaths()).toEqual([]);
    expect(ledger().volume(volumeRef.volumeUid)?.claims).toEqual({});
    expect(host.calls.map((call) => call.split(" ")[0])).toEqual([
      "NodeStageVolume",
      "NodePublishVolume",
      "NodeUnpublishVolume",
      "NodeUnstageVolume",
    ]);
  });
});

describe("a device that only reads", () => {
  const block = { attachmentMode: "BLOCK_DEVICE", readOnly: true } as const;
  const start = async (readOnly: boolean | undefined, fsType = "devtmpfs") => {
    const agent = await startModelAgent();
    agent.host.mounting.fsType = fsType;
    const asked: string[] = [];
    agent.host.dirs.deviceReadOnly = async (name) => {
      asked.push(name);
      return readOnly;
    };
    return { agent, asked };
  };

  test("is taken when the kernel refuses writes, or does not say", async () => {
    for (const readOnly of [true, undefined]) {
      const { agent, asked } = await start(readOnly);
      expect(await agent.volumes().publish(permitOrder("a", 5, block), anyCaller)).toMatchObject({ kind: "published" });
      expect(asked).toEqual(["/dev/ext-1"]);
      expect(agent.host.mounting.remounts).toEqual([]);
    }
  });

  test("and takes writes is no such device: undone, and the claim ends", async () => {
    const { agent } = await start(false);
    const answer = await agent.volumes().publish(permitOrder("a", 5, block), anyCaller);
    expect(answer).toMatchObject({ kind: "not-mounted", failure: { reason: "READ_ONLY_MISSING" } });
    expect(agent.host.mountedPaths()).toEqual([]);
  });

  test("is not asked about when the claim writes", async () => {
    const { agent, asked } = await start(false);
    const order = permitOrder("a", 5, { ...block, readOnly: false });
    expect(await agent.volumes().publish(order, anyCaller)).toMatchObject({ kind: "published" });
    expect(asked).toEqual([]);
  });
});
