import { describe, expect, it } from "vitest";
import { countCalls } from "./calls-under-way.ts";
import type { CsiCaller } from "./csi-caller.ts";

const never = new AbortController().signal;

function held() {
  const ends: ((error?: Error) => void)[] = [];
  const wait = () =>
    new Promise<never>((resolve, reject) => ends.push((error) => (error ? reject(error) : resolve({} as never))));
  async function* items(): AsyncGenerator<never> {
    yield {} as never;
    await wait();
  }
  const caller = { call: wait, relay: wait, stream: items, relayStream: items } as unknown as CsiCaller;
  return { counted: countCalls(caller), ends };
}

describe("calls under way", () => {
  it("are named until they end, well or not, and who waits for their end is woken by the last", async () => {
    const { counted, ends } = held();
    const { caller } = counted;
    await counted.idle(never);
    const first = caller.call("NodeStageVolume", {}, { signal: never, subject: { volume: "v1" } });
    const second = caller.relay("CreateVolume", new Uint8Array(), { signal: never });
    expect(counted.list()).toEqual(["NodeStageVolume for volume v1", "CreateVolume"]);
    let idle = false;
    const waiting = counted.idle(never).then(() => {
      idle = true;
    });
    ends[0]?.(new Error("refused"));
    await expect(first).rejects.toThrow("refused");
    expect(counted.list()).toEqual(["CreateVolume"]);
    expect(idle).toBe(false);
    ends[1]?.();
    await second;
    await waiting;
    expect(counted.list()).toEqual([]);
  });

  it("hold streams too, until they are read to the end or left", async () => {
    const { counted } = held();
    for (const stream of [
      counted.caller.stream("GetMetadataAllocated", {}, { signal: never }),
      counted.caller.relayStream("GetMetadataAllocated", new Uint8Array(), { signal: never }),
    ]) {
      const items = stream[Symbol.asyncIterator]();
      expect(counted.list()).toEqual([]);
      await items.next();
      expect(counted.list()).toEqual(["GetMetadataAllocated"]);
      await items.return?.(undefined);
      expect(counted.list()).toEqual([]);
    }
  });

  it("a wait for their end can be given up", async () => {
    const { counted } = held();
    counted.caller.call("Probe", {}, { signal: never }).catch(() => undefined);
    await expect(counted.idle(AbortSignal.abort(new DOMException("time is up", "TimeoutError")))).rejects.toThrow(
      "time is up",
    );
  });
});
