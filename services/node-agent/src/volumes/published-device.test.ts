import { expect, test } from "vitest";
import { anyCaller, permitOrder, startModelAgent, volumeRef } from "../testing/model-agent.ts";

const block = { attachmentMode: "BLOCK_DEVICE" } as const;
const growth = { requiredBytes: 20n, limitBytes: 0n };
const expandOrder = { ref: volumeRef, nodeEpoch: 1, capacity: growth, usedAs: undefined, secrets: {} };

const start = async (sizes: readonly (bigint | undefined)[]) => {
  const agent = await startModelAgent();
  const { host } = agent;
  host.mounting.fsType = "devtmpfs";
  host.dirs.deviceNumber = async () => ({ major: 7, minor: 3 });
  const left = [...sizes];
  const asked: string[] = [];
  host.dirs.deviceBytes = async ({ major, minor }) => {
    asked.push(`${major}:${minor} after ${host.calls.at(-1)?.split(" ")[0]}`);
    return left.shift();
  };
  return { agent, asked };
};

test("a device is told with the size that the kernel has for it, at its publication and when it was grown", async () => {
  const { agent, asked } = await start([8n, 20n]);
  const published = await agent.volumes().publish(permitOrder("a", 5, block), anyCaller);
  expect(published).toMatchObject({ device: { path: "/dev/ext-1", major: 7, minor: 3, sizeBytes: 8n } });
  expect(await agent.volumes().expand(expandOrder, anyCaller)).toMatchObject({ kind: "expanded", deviceBytes: 20n });
  expect(asked).toEqual(["7:3 after NodePublishVolume", "7:3 after NodeExpandVolume"]);
});

test("one that its permit makes grow is measured after that", async () => {
  const { agent, asked } = await start([20n, 20n]);
  const order = permitOrder("a", 5, block);
  const owing = { ...order, contents: { ...order.contents, expandTo: growth } };
  expect(await agent.volumes().publish(owing, anyCaller)).toMatchObject({ device: { sizeBytes: 20n } });
  expect(asked).toEqual(["7:3 after NodeExpandVolume", "7:3 after NodeExpandVolume"]);
});

test("a size that the kernel does not tell is none", async () => {
  const { agent } = await start([undefined, undefined]);
  const published = await agent.volumes().publish(permitOrder("a", 5, block), anyCaller);
  expect(published).toEqual(expect.objectContaining({ device: { path: "/dev/ext-1", major: 7, minor: 3 } }));
  expect(await agent.volumes().expand(expandOrder, anyCaller)).toEqual({ kind: "expanded", capacityBytes: 20n });
});
