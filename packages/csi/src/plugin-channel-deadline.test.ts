import { createServer } from "node:http2";
import { systemClock } from "@holdfast/shared/async/clock";
import { tempSocket } from "@holdfast/shared/testing/temp-socket";
import { expect, onTestFinished, test } from "vitest";
import { openPluginChannel } from "./plugin-channel.ts";

/** No time passes between the begin of a call and its leaving, however busy the machine is; timers fire all the same. */
const clock = { ...systemClock, monotonic: () => 0 };

/** Whatever is called stays unanswered; what its headers said is kept. */
async function startSilentPlugin() {
  const socket = await tempSocket();
  onTestFinished(() => socket.remove());
  const socketPath = socket.path;
  const told: (string | undefined)[] = [];
  const server = createServer();
  server.on("stream", (stream, headers) => {
    told.push(headers["grpc-timeout"] as string | undefined);
    stream.on("error", () => undefined);
  });
  server.on("session", (session) => onTestFinished(() => session.destroy()));
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  onTestFinished(() => void server.close());
  const channel = openPluginChannel({ socketPath, clock });
  onTestFinished(() => channel.close());
  expect(await channel.connect(5_000)).toBe(true);
  return { channel, told };
}

const signal = new AbortController().signal;
const late = { failure: { code: "DEADLINE_EXCEEDED", sent: true } };

test("a call, and a stream with a time of its own, tell the plugin how long they may take, to the millisecond", async () => {
  const { channel, told } = await startSilentPlugin();
  const bytes = new Uint8Array();
  const call = { signal, metadata: {} };
  expect(await channel.unary("ListVolumes", bytes, { ...call, deadlineMs: 180 })).toMatchObject(late);
  const items: unknown[] = [];
  const stream = channel.stream("GetMetadataAllocated", bytes, { ...call, deadlineMs: 60_000, totalMs: 160 });
  for await (const item of stream) items.push(item);
  expect(items).toMatchObject([late]);
  expect(told).toEqual(["180m", "160m"]);
});

test("a stream without one is only watched here, from message to message", async () => {
  const { channel, told } = await startSilentPlugin();
  const items: unknown[] = [];
  const options = { signal, metadata: {}, deadlineMs: 120 };
  for await (const item of channel.stream("GetMetadataAllocated", new Uint8Array(), options)) items.push(item);
  expect(items).toMatchObject([late]);
  expect(told).toEqual([undefined]);
});
