/** Questions over one link to a peer that answers as each test says, and keeps what it was told. */
import { grpcHeaders, type PeerCall, reply, useLinkPeer } from "@holdfast/shared/testing/link-peer";
import { Status } from "nice-grpc";
import { describe, expect, it } from "vitest";
import { callPolicy } from "./call-policy.ts";
import type { UnaryMethod } from "./methods.ts";
import { createPluginClient, questionRetry } from "./plugin-client.ts";

const peerOf = useLinkPeer();
const away = { "grpc-status": String(Status.UNAVAILABLE), "grpc-message": "reloading" };
const done = (stream: PeerCall["stream"]): void => reply(stream, [Buffer.alloc(5)]);
const refuse = (stream: PeerCall["stream"], code: Status): void =>
  stream.respond({ ...grpcHeaders, "grpc-status": String(code) }, { endStream: true });

/** The codes with which the peer refuses the first calls; the rest is answered. */
const asking = async (codes: readonly Status[]) => {
  const told: number[] = [];
  const peer = await peerOf(({ stream, headers }) => {
    const code = codes[told.length];
    told.push(Number.parseInt(String(headers["grpc-timeout"]), 10));
    if (code === undefined) done(stream);
    else refuse(stream, code);
  });
  let left = 10_000;
  const leftMs = (): number => {
    left -= 1_000;
    return left;
  };
  const client = createPluginClient(peer.channel);
  const ask = (options: { readonly signal?: AbortSignal } = {}) =>
    client.ListVolumes(new Uint8Array(), { ...questionRetry.ListVolumes, ...options, leftMs });
  return { told, ask, client };
};

describe("a question", () => {
  it("Q2 is asked up to three times, and told the time that is left each time", async () => {
    const twice = await asking([Status.UNAVAILABLE, Status.UNAVAILABLE]);
    expect(await twice.ask()).toHaveLength(0);
    expect(twice.told).toEqual([9_000, 8_000, 7_000]);
    const thrice = await asking([Status.UNAVAILABLE, Status.UNAVAILABLE, Status.UNAVAILABLE]);
    await expect(thrice.ask()).rejects.toMatchObject({ code: Status.UNAVAILABLE });
    expect(thrice.told).toHaveLength(3);
  });

  it.each([Status.INTERNAL, Status.ABORTED, Status.UNKNOWN, Status.CANCELLED, Status.RESOURCE_EXHAUSTED])(
    "is asked once when it met code %i",
    async (code) => {
      const { ask, told } = await asking([code]);
      await expect(ask()).rejects.toMatchObject({ code });
      expect(told).toHaveLength(1);
    },
  );

  it("is not asked again for a caller who gave up", async () => {
    const given = new AbortController();
    let asked = 0;
    const peer = await peerOf(({ stream }) => {
      asked += 1;
      given.abort(new DOMException("enough", "AbortError"));
      reply(stream, [], away);
    });
    const client = createPluginClient(peer.channel);
    const options = { ...questionRetry.ListVolumes, signal: given.signal };
    await expect(client.ListVolumes(new Uint8Array(), options)).rejects.toThrow("enough");
    expect(asked).toBe(1);
  });

  it("Q1 is nothing that changes the world", () => {
    for (const method of Object.keys(callPolicy) as UnaryMethod[]) {
      const { attempts, retryCodes } = callPolicy[method];
      expect(questionRetry[method]?.retryMaxAttempts, method).toBe(attempts > 1 ? attempts - 1 : undefined);
      expect(questionRetry[method]?.retryableStatuses?.length ?? 0, method).toBe(retryCodes.length);
    }
    for (const method of ["CreateVolume", "NodeUnpublishVolume", "DeleteSnapshot", "ControllerPublishVolume"] as const)
      expect(questionRetry[method], method).toBeUndefined();
  });
});
