import { systemClock } from "@holdfast/shared/async/clock";
import { describe, expect, it } from "vitest";
import { codecOf } from "./messages.ts";
import { openPluginChannel } from "./plugin-channel.ts";
import { useConnectionFixture } from "./testing/connection-fixture.ts";

const { home, signal, start } = useConnectionFixture();

const probe = codecOf("Probe").encode({});
const options = () => ({ signal: signal(), deadlineMs: 5_000, metadata: {} });
const open = () => openPluginChannel({ socketPath: home().socketPath, clock: systemClock });

describe("a plugin channel", () => {
  it("says whether somebody listens", async () => {
    const nobody = open();
    expect(await nobody.connect(1_000)).toBe(false);
    nobody.close();
    await start();
    const channel = open();
    expect(await channel.connect(1_000)).toBe(true);
    expect(await channel.unary("Probe", probe, options())).toMatchObject({ bytes: expect.any(Uint8Array) });
    expect(channel.inFlight()).toBe(0);
    channel.close();
  });

  it("notices the loss without a call being made, and never reaches whoever listens there next", async () => {
    const first = await start();
    const channel = open();
    await channel.connect(1_000);
    const lost = new Promise((resolve) => channel.lost.addEventListener("abort", resolve));
    await first.kill();
    await lost;
    const next = await start();
    expect(await channel.unary("Probe", probe, options())).toEqual({
      failure: { code: "UNAVAILABLE", message: "the connection to the plugin is gone", sent: false },
    });
    expect(next.calls).toEqual([]);
    channel.close();
  });

  it("takes no new call once it is retired, and lets the one in flight finish", async () => {
    const gate = Promise.withResolvers<void>();
    const plugin = await start({
      handlers: {
        probe: async () => {
          await gate.promise;
          return { ready: true };
        },
      },
    });
    const channel = open();
    await channel.connect(1_000);
    const call = channel.unary("Probe", probe, options());
    await expect.poll(() => plugin.calls).toEqual(["Probe"]);
    channel.retire();
    expect(await channel.unary("Probe", probe, options())).toMatchObject({ failure: { sent: false } });
    gate.resolve();
    const reply = await call;
    if (!("bytes" in reply)) throw new Error(reply.failure.message);
    expect(codecOf("Probe").decode(reply.bytes)).toEqual({ ready: true });
  });

  it("K1 bounds the calls that a caller waits for, counts none whose caller has gone, and never refuses Probe", async () => {
    const plugin = await start({ handlers: { deleteVolume: () => new Promise<never>(() => undefined) } });
    const channel = openPluginChannel({ socketPath: home().socketPath, clock: systemClock, maxInFlight: 1 });
    await channel.connect(1_000);
    const left = new AbortController();
    const hung = channel.unary("DeleteVolume", probe, { ...options(), deadlineMs: undefined, left: left.signal });
    await expect.poll(() => plugin.calls).toEqual(["DeleteVolume"]);
    const ask = () => channel.unary("GetPluginInfo", probe, options());
    expect(await ask()).toMatchObject({ failure: { code: "RESOURCE_EXHAUSTED", sent: false } });
    expect(await channel.unary("Probe", probe, options())).toMatchObject({ bytes: expect.any(Uint8Array) });
    left.abort();
    expect(await ask()).toMatchObject({ bytes: expect.any(Uint8Array) });
    expect(channel.inFlight()).toBe(1);
    channel.close();
    expect(await hung).toMatchObject({ failure: { code: "CANCELLED", sent: true } });
  });

  it("ends what is in flight when it is closed", async () => {
    const plugin = await start({ handlers: { probe: () => new Promise<never>(() => undefined) } });
    const channel = open();
    await channel.connect(1_000);
    const call = channel.unary("Probe", probe, options());
    await expect.poll(() => plugin.calls).toEqual(["Probe"]);
    channel.close();
    expect(await call).toMatchObject({ failure: { code: "CANCELLED", sent: true } });
  });
});
