/** What becomes of a mount that its plugin does not take away. */
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
const target = paths.target("a");

const published = async () => {
  const agent = await startModelAgent();
  await agent.volumes().publish(permitOrder("a", 5), anyCaller);
  return { agent, host: agent.host, release: () => agent.volumes().release(releaseOrder("a", 5), anyCaller) };
};

const notYet = {
  kind: "pending",
  halt: {
    reason: "STILL_MOUNTED",
    method: "NodeUnpublishVolume",
    code: "OK",
    message: expect.stringContaining("itself"),
  },
};

test("[G2] the second OK over a mount that nobody uses: the agent unmounts it, and says so once", async () => {
  const { agent, host, release } = await published();
  host.fates.push("lied", "lied");
  const first = await release();
  expect(first).toMatchObject(notYet);
  expect(first).not.toHaveProperty("halt.blocked");
  expect(host.mounting.unmounts).toEqual([]);
  expect(await release()).toEqual({ kind: "released", epoch: { gen: 1, ctr: 5 }, unmounted: [target] });
  expect(host.mounting.unmounts).toEqual([target]);
  expect(host.calls.slice(2)).toEqual([
    "NodeUnpublishVolume lied",
    "NodeUnpublishVolume lied",
    "NodeUnstageVolume done",
  ]);
  expect(await release()).toEqual({ kind: "released", epoch: { gen: 1, ctr: 5 } });
  expect(agent.volumes().halts().size).toBe(0);
});

test("[G2] the same of the stage", async () => {
  const { host, release } = await published();
  host.fates.push("done", "lied", "lied");
  expect(await release()).toMatchObject({
    kind: "pending",
    halt: { method: "NodeUnstageVolume", reason: "STILL_MOUNTED" },
  });
  expect(await release()).toMatchObject({ kind: "released", unmounted: [paths.staging] });
});

test("[G2] what a process uses is not unmounted: it is named, with the command that ends it", async () => {
  const { host, release } = await published();
  host.fates.push("lied", "lied", "lied");
  host.setHolder({ path: `${target}/data`, pid: 4711, command: "postgres" });
  await release();
  expect(await release()).toMatchObject({
    kind: "pending",
    halt: {
      reason: "MOUNT_HELD",
      message: expect.stringContaining(`process 4711 (postgres) uses ${target}/data`),
      blocked: {
        missingProof: "that process 4711 no longer has the mount",
        clearWith: expect.stringContaining("kill 4711"),
      },
      holder: { pid: 4711 },
    },
  });
  expect(host.mounting.unmounts).toEqual([]);
  host.setHolder();
  expect(await release()).toMatchObject({ kind: "released", unmounted: [target] });
});

test("[G2] what the kernel refuses to unmount is told with its words and how to find the user", async () => {
  const { host, release } = await published();
  host.fates.push("lied", "lied", "lied");
  host.mounting.unmountsWork = false;
  await release();
  const refused = await release();
  expect(refused).toMatchObject({
    halt: { reason: "STILL_MOUNTED", blocked: { clearWith: expect.stringContaining(`fuser -vm ${target}`) } },
  });
  expect(refused).toHaveProperty("halt.message", expect.stringContaining("could not unmount it: busy"));
  host.unmount(target);
  expect(await release()).toMatchObject({ kind: "released" });
});

test("[G2] a mount below its own is not the agent's to take", async () => {
  const { host, release } = await published();
  host.addMount(`${target}/below`, "9:9", "/");
  for (let count = 0; count < 3; count += 1)
    expect(await release()).toMatchObject({
      halt: { reason: "STILL_MOUNTED", blocked: { clearWith: `umount ${target}/below` } },
    });
  expect(host.mounting.unmounts).toEqual([]);
});

test.each([
  ["first", "blocked"],
  ["second", "lost-before"],
] as const)("[G1] the %s failure names the holder where its code says %s", async (first, fate) => {
  const { host, release } = await published();
  host.setHolder({ path: target, pid: 4711, command: "sleep" });
  host.fates.push(fate, fate, fate);
  if (first === "second") expect(await release()).not.toHaveProperty("halt.holder");
  else host.fates.pop();
  const named = { halt: { reason: "MOUNT_HELD", holder: { pid: 4711 }, method: "NodeUnpublishVolume" } };
  expect(await release()).toMatchObject(named);
  expect(await release()).toMatchObject(named);
  host.setHolder();
  expect(await release()).toMatchObject({ kind: "released" });
});

test("[G1] without a holder the plugin's own words stay", async () => {
  const { host, release } = await published();
  host.fates.push("lost-before", "lost-before", "lost-before");
  for (let count = 0; count < 3; count += 1)
    expect(await release()).toMatchObject({ halt: { reason: "DEADLINE_EXCEEDED", code: "DEADLINE_EXCEEDED" } });
});
