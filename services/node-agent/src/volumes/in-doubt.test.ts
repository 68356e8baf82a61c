import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { expect, test } from "vitest";
import {
  anyCaller,
  modelPaths,
  permitOrder,
  releaseOrder,
  startModelAgent,
  volumeRef,
} from "../testing/model-agent.ts";

const paths = modelPaths.of(volumeRef.plugin, volumeRef.externalId);
const noTokens = new HoldfastError({ kind: "precondition", reason: "TOKENS_UNSIGNED", message: "there is no key" });
const single = { accessMode: "SINGLE_NODE_WRITER" } as const;

test("[I6] staged again over a mount that stayed: the agent leaves alone what the volume covers", async () => {
  const agent = await startModelAgent();
  const looked: string[] = [];
  agent.host.dirs.makeStaging = async (path) => {
    // As on a real host: the volume's root belongs to whom it likes, and to look at it may hang.
    if (agent.host.mountedPaths().includes(path)) throw new Error("the volume belongs to user 1000");
    looked.push(path);
  };
  await agent.volumes().publish(permitOrder("a", 5), anyCaller);
  agent.host.unmount(paths.target("a"));
  expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({ kind: "published" });
  expect(looked).toEqual([paths.staging]);
  expect(agent.host.calls.filter((call) => call.startsWith("NodeStage"))).toHaveLength(2);
});

test("[I2] [I6] the agent ends after Stage, before its record: staged again over the mount, published, released", async () => {
  const agent = await startModelAgent();
  agent.host.fates.push("crash-after");
  await Promise.race([agent.volumes().publish(permitOrder("a", 5), anyCaller), agent.crashed()]);
  await agent.start();
  expect(agent.host.mountedPaths()).toEqual([paths.staging]);
  expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({ kind: "published" });
  expect(await agent.volumes().release(releaseOrder("a", 5), anyCaller)).toMatchObject({ kind: "released" });
  expect(agent.host.mountedPaths()).toEqual([]);
});

test("[I5] Publish refused with the mount left behind: unpublished before the claim ends", async () => {
  const agent = await startModelAgent();
  agent.host.fates.push("done", "refused-after");
  expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({ kind: "not-mounted" });
  expect(agent.host.calls).toEqual([
    "NodeStageVolume done",
    "NodePublishVolume refused-after",
    "NodeUnpublishVolume done",
    "NodeUnstageVolume done",
  ]);
  expect(agent.host.mountedPaths()).toEqual([]);
});

test("[I5] Stage refused with the mount left behind: unstaged before the claim ends", async () => {
  const agent = await startModelAgent();
  agent.host.fates.push("refused-after");
  expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({ kind: "not-mounted" });
  expect(agent.host.calls).toEqual(["NodeStageVolume refused-after", "NodeUnstageVolume done"]);
  expect(agent.host.mountedPaths()).toEqual([]);
});

test("[I6] what the kernel showed before a reboot is forgotten in every later life, not only in the first", async () => {
  const agent = await startModelAgent();
  await agent.volumes().publish(permitOrder("a", 5, single), anyCaller);
  expect(agent.ledger().volume(volumeRef.volumeUid)?.stage.marks).not.toEqual([]);
  agent.crash();
  await agent.start({ rebooted: true });
  agent.crash();
  await agent.start();
  expect(agent.ledger().volume(volumeRef.volumeUid)?.stage).toMatchObject({ shown: [], marks: [], before: [] });
  // Device numbers are given out anew at each boot: this is a disk of the host's.
  agent.host.addMount("/srv", "9:1", "/ext-1");
  expect(await agent.volumes().release(releaseOrder("a", 5), anyCaller)).toMatchObject({ kind: "released" });
});

test("[I2] a mount in the way keeps a permit waiting without any call, time after time, and not for longer than it is there", async () => {
  const agent = await startModelAgent();
  agent.host.addMount(paths.target("stranger"), "9:7", "/elsewhere");
  for (let push = 0; push < 2; push += 1)
    expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({
      kind: "uncertain",
      halt: { reason: "ORPHAN_MOUNT" },
    });
  agent.crash();
  await agent.start();
  expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({ kind: "uncertain" });
  expect(agent.host.calls).toEqual([]);
  agent.host.unmount(paths.target("stranger"));
  expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({ kind: "published" });
  expect(agent.host.calls).toEqual(["NodeStageVolume done", "NodePublishVolume done"]);
});

test("[I5] what is at a claim's own target before anything was called is undone, although Stage is refused for good", async () => {
  const agent = await startModelAgent();
  agent.host.addMount(paths.target("a"), "9:7", "/elsewhere");
  agent.host.fates.push("refused");
  expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({ kind: "not-mounted" });
  expect(agent.host.calls).toEqual(["NodeStageVolume refused", "NodeUnpublishVolume done"]);
  expect(agent.host.mountedPaths()).toEqual([]);
});

test("[I2] the agent ends during Publish, before what the stage shows was recorded: another process that holds it is still found", async () => {
  const agent = await startModelAgent();
  agent.host.fates.push("done", "crash-before");
  await Promise.race([agent.volumes().publish(permitOrder("a", 5, single), anyCaller), agent.crashed()]);
  await agent.start();
  const [staged] = (await agent.host.mounts.look(false)).under(paths.staging);
  if (staged === undefined) throw new Error("nothing is staged");
  agent.host.addForeign({ ...staged, id: 900, path: "/copy" }, 77);
  expect(await agent.volumes().release(releaseOrder("a", 5), anyCaller)).toMatchObject({
    kind: "pending",
    halt: { reason: "MOUNT_HELD" },
  });
});

test("[I6] the agent ends during Publish, before anything of it was recorded: staged again over the mount, and published", async () => {
  const agent = await startModelAgent();
  agent.host.fates.push("done", "crash-after");
  await Promise.race([agent.volumes().publish(permitOrder("a", 5, single), anyCaller), agent.crashed()]);
  await agent.start();
  expect(await agent.volumes().publish(permitOrder("a", 5, single), anyCaller)).toMatchObject({ kind: "published" });
  expect(agent.host.calls.filter((call) => call.startsWith("NodeStage"))).toHaveLength(2);
  expect(agent.ledger().volume(volumeRef.volumeUid)?.stage).toMatchObject({ phase: "staged", marks: [{}] });
});

test("[I2] published without its options: what the plugin mounted beside our paths has to go too before the release", async () => {
  const agent = await startModelAgent();
  const { makeTarget } = agent.host.dirs;
  agent.host.dirs.makeTarget = async (path) => {
    // The driver keeps a mount of its own.
    agent.host.addMount("/driver/global", "9:1", "/ext-1");
    await makeTarget(path);
  };
  agent.host.mounting.remountsWork = false;
  agent.host.mounting.pluginOptions = ["rw"];
  expect(await agent.volumes().publish(permitOrder("a", 5, single), anyCaller)).toMatchObject({
    kind: "uncertain",
    halt: { reason: "ORPHAN_MOUNT" },
  });
  expect(agent.host.mountedPaths()).toEqual(["/driver/global"]);
  agent.host.unmount("/driver/global");
  expect(await agent.volumes().publish(permitOrder("a", 5, single), anyCaller)).toMatchObject({ kind: "not-mounted" });
});

test("[I2] the agent ends between the first frame of a permit and its look: what stands in the way is still seen", async () => {
  const agent = await startModelAgent();
  const { look } = agent.host.mounts;
  agent.host.mounts.look = async () => {
    await expect.poll(() => agent.ledger().volume(volumeRef.volumeUid)?.claims["a"]?.phase).toBe("publishing");
    agent.crash();
    return await new Promise(() => undefined);
  };
  await Promise.race([agent.volumes().publish(permitOrder("a", 5), anyCaller), agent.crashed()]);
  agent.host.mounts.look = look;
  await agent.start();
  agent.host.addMount(paths.target("stranger"), "9:7", "/elsewhere");
  expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({
    kind: "uncertain",
    halt: { reason: "ORPHAN_MOUNT" },
  });
  expect(agent.host.calls).toEqual([]);
});

test("[I5] what was never published is not unpublished: its stage had no answer, or its tokens were not to be had", async () => {
  const agent = await startModelAgent("restage", { tokens: () => Promise.reject(noTokens) });
  agent.host.fates.push("lost-after");
  expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({ kind: "uncertain" });
  expect(await agent.volumes().release(releaseOrder("a", 5), anyCaller)).toMatchObject({ kind: "released" });
  const order = permitOrder("b", 6);
  const wanting = { ...order, contents: { ...order.contents, wantsTokens: true } };
  expect(await agent.volumes().publish(wanting, anyCaller)).toMatchObject({ kind: "uncertain" });
  expect(await agent.volumes().release(releaseOrder("b", 6), anyCaller)).toMatchObject({ kind: "released" });
  expect(agent.host.calls).toEqual([
    "NodeStageVolume lost-after",
    "NodeUnstageVolume done",
    "NodeStageVolume done",
    "NodeUnstageVolume done",
  ]);
});

test("[I5] a stranger in the way of a permit whose intents are written: nothing is undone that was never called", async () => {
  const agent = await startModelAgent();
  agent.host.addMount(paths.target("stranger"), "9:7", "/elsewhere");
  expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({ kind: "uncertain" });
  agent.host.unmount(paths.target("stranger"));
  expect(await agent.volumes().release(releaseOrder("a", 5), anyCaller)).toMatchObject({ kind: "released" });
  expect(agent.host.calls).toEqual([]);
});
