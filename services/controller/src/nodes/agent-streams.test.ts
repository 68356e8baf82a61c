import { AgentServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import { createGrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createLinkHub, type LinkHub } from "../../../../test/support/controller/link-hub.ts";

let hub: LinkHub;
beforeEach(async () => {
  hub = await createLinkHub();
});
afterEach(() => hub.close());

/** Answers its name, so that it is seen which stream was asked. */
const named = (name: string) => ({
  raiseFloor: async () => ({ promisedGen: BigInt(name) }),
});
const client = (node = "n1") =>
  createGrpcClient(AgentServiceDefinition, hub.streams.channelTo(node), { log: createMemoryLogger() });
const whoAnswers = async () => String((await client().raiseFloor({})).promisedGen);

describe("the way to a node", () => {
  test("AS3 without a stream fails at once, and nothing was sent", async () => {
    await expect(client().raiseFloor({})).rejects.toMatchObject({
      kind: "unavailable",
      reason: "NOT_SENT",
      message: expect.stringContaining("the agent of node n1 has no stream to this controller"),
    });
  });

  test("AS1 leads to the stream that registered last, and back to the older one of the same process when that ends", async () => {
    const asked = client();
    await hub.linked({ serve: named("1") });
    expect(String((await asked.raiseFloor({})).promisedGen)).toBe("1");
    const second = await hub.linked({ serve: named("2") });
    expect(await whoAnswers()).toBe("2");
    expect(String((await asked.raiseFloor({})).promisedGen)).toBe("2");
    second.cut();
    await expect.poll(whoAnswers).toBe("1");
    expect(hub.told.filter((word) => word.startsWith("unlinked"))).toEqual([]); // AS4
  });

  test("AS1 an older stream keeps the calls that are under way, and serves what its agent asks", async () => {
    let finish = (): void => undefined;
    const held = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const first = await hub.linked({ serve: { raiseFloor: () => held.then(() => ({ promisedGen: 1n })) } });
    const underWay = client().raiseFloor({});
    await expect.poll(() => first.calls.load().served).toBe(1);
    await hub.linked({ serve: named("2") });
    await first.register();
    expect(await whoAnswers()).toBe("2");
    finish();
    expect((await underWay).promisedGen).toBe(1n);
  });

  test("AS2 a process that registers later ends the streams of the former one, whose calls are unknown at once", async () => {
    const old = await hub.linked({ instance: "i1", serve: { raiseFloor: () => new Promise(() => undefined) } });
    const underWay = client()
      .raiseFloor({})
      .catch((error: unknown) => error);
    await expect.poll(() => old.calls.load().served).toBe(1);
    await hub.linked({ instance: "i2", serve: named("2") });
    expect(await underWay).toMatchObject({ reason: "STREAM_ENDED" });
    expect(await whoAnswers()).toBe("2");
    await old.over;
    expect(hub.told).toEqual(["linked n1/i1", "linked n1/i2", "unlinked n1/i1"]);
  });

  test("AS4 the registry learns of the end of the last stream, and listeners of each begin", async () => {
    const links: string[] = [];
    hub.streams.onLink((node) => void links.push(node));
    const first = await hub.linked();
    const second = await hub.linked();
    first.cut();
    second.end();
    await expect.poll(() => hub.told.at(-1)).toBe("unlinked n1/i1");
    expect(hub.told.filter((word) => word.startsWith("unlinked"))).toHaveLength(1);
    expect(links).toEqual(["n1", "n1"]);
  });

  test("can be asked to be another one", async () => {
    const asked: Uint8Array[] = [];
    await hub.linked({ onReconnect: (bytes) => void asked.push(bytes) });
    hub.streams.reconnect("n1", "its certificate ends", 50);
    await expect.poll(() => asked.length).toBe(1);
  });
});
