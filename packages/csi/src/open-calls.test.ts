import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { beforeEach, describe, expect, it } from "vitest";
import { codecOf } from "./messages.ts";
import type { UnaryMethod } from "./methods.ts";
import { createOpenCalls } from "./open-calls.ts";
import type { CsiTransport, WireOptions, WireReply } from "./transport.ts";

interface Sent {
  readonly method: UnaryMethod;
  readonly options: WireOptions;
  readonly answer: (reply: WireReply) => void;
}

const clock = createManualClock();
let sent: Sent[];
let stop: AbortController;
let open: ReturnType<typeof createOpenCalls>;

/** A connection to a plugin that answers when it is told to. */
const connection = (): CsiTransport => ({
  unary(method, _request, options) {
    const { promise, resolve } = Promise.withResolvers<WireReply>();
    sent.push({ method, options, answer: resolve });
    return promise;
  },
  stream: async function* () {
    yield { bytes: new Uint8Array() };
  },
});

const call = (
  over: CsiTransport,
  method: "ControllerPublishVolume" | "ControllerUnpublishVolume" | "CreateVolume" | "DeleteVolume",
  request: object,
  signal: AbortSignal = stop.signal,
) => {
  const codec = codecOf(method);
  return over.unary(method, codec.encode(codec.complete(request)), { signal, deadlineMs: 1_000, metadata: {} });
};

beforeEach(() => {
  sent = [];
  stop = new AbortController();
  open = createOpenCalls({ clock });
});

const publish = { volumeId: "v", nodeId: "n1" };
const methodsSent = () => sent.map(({ method }) => method);

describe("calls that change something", () => {
  it("H1 H3 stay open behind the deadline of their caller, and no other call of the volume is sent beside them", async () => {
    const plugin = open.over(connection());
    const first = call(plugin, "ControllerPublishVolume", publish);
    await clock.advance(1_000);
    expect(await first).toMatchObject({ failure: { code: "DEADLINE_EXCEEDED", sent: true } });
    expect(sent[0]?.options).toMatchObject({ deadlineMs: undefined });
    expect(sent[0]?.options.signal.aborted).toBe(false);
    for (const method of ["ControllerUnpublishVolume", "DeleteVolume"] as const)
      expect(await call(plugin, method, { volumeId: "v", nodeId: "n1" })).toMatchObject({
        failure: {
          code: "ABORTED",
          sent: false,
          message: expect.stringContaining("ControllerPublishVolume for volume v"),
        },
      });
    void call(plugin, "ControllerUnpublishVolume", { volumeId: "other", nodeId: "n1" });
    expect(methodsSent()).toEqual(["ControllerPublishVolume", "ControllerUnpublishVolume"]);
    sent[0]?.answer({ bytes: new Uint8Array() });
    await clock.advance(0);
    void call(plugin, "ControllerUnpublishVolume", { volumeId: "v", nodeId: "n1" });
    expect(methodsSent()).toHaveLength(3);
  });

  it("H2 are joined by the same call, also with another secret, whoever gave up waiting", async () => {
    const plugin = open.over(connection());
    const given = new AbortController();
    const first = call(plugin, "ControllerPublishVolume", { ...publish, secrets: { key: "1" } }, given.signal);
    given.abort();
    expect(await first).toMatchObject({ failure: { code: "CANCELLED", sent: true } });
    const again = call(plugin, "ControllerPublishVolume", { ...publish, secrets: { key: "2" } });
    await clock.advance(0);
    expect(sent).toHaveLength(1);
    const failure = { code: "NOT_FOUND", message: "no such node", sent: true, answered: true } as const;
    sent[0]?.answer({ failure });
    expect(await again).toEqual({ failure });
  });

  it("H6 take no place of other calls once their callers have gone, and are bounded by a number of their own", async () => {
    const plugin = createOpenCalls({ clock, maxOpen: 2 }).over(connection());
    const hung = call(plugin, "ControllerPublishVolume", publish);
    void call(plugin, "DeleteVolume", { volumeId: "w" });
    expect(sent[0]?.options.left?.aborted).toBe(false);
    const more = () => call(plugin, "DeleteVolume", { volumeId: "x" });
    const refused = more();
    await clock.advance(1_000);
    expect(await refused).toMatchObject({ failure: { code: "RESOURCE_EXHAUSTED", sent: false } });
    await hung;
    expect(sent[0]?.options.left?.aborted).toBe(true);
    void call(plugin, "ControllerPublishVolume", publish);
    expect(methodsSent()).toEqual(["ControllerPublishVolume", "DeleteVolume"]);
    sent[1]?.answer({ bytes: new Uint8Array() });
    await clock.advance(0);
    void more();
    expect(methodsSent()).toHaveLength(3);
  });

  it("H4 stay open over a new connection, until their own one ends; the same call is then sent over the new one", async () => {
    const before = open.over(connection());
    void call(before, "ControllerPublishVolume", publish);
    const after = open.over(connection());
    expect(await call(after, "ControllerUnpublishVolume", publish)).toMatchObject({ failure: { sent: false } });
    sent[0]?.answer({ failure: { code: "UNAVAILABLE", message: "the connection was lost", sent: true } });
    await clock.advance(0);
    void call(after, "ControllerPublishVolume", publish);
    expect(methodsSent()).toEqual(["ControllerPublishVolume", "ControllerPublishVolume"]);
  });

  describe("H5 a volume that CreateVolume names", () => {
    // A create that is answered: volume "v".
    const made: WireReply = { bytes: Uint8Array.from([0x0a, 0x03, 0x12, 0x01, 0x76]) };

    it.each([
      ["when the create is answered", ["create", "delete"]],
      ["when the create left, and is answered first", ["delete", "create"]],
    ] as const)("is not there for good when a delete of it was open %s", async (_when, order) => {
      const plugin = open.over(connection());
      void call(plugin, "DeleteVolume", { volumeId: "v" });
      const create = call(plugin, "CreateVolume", { name: "n" });
      const [deletion, creation] = sent;
      for (const one of order) {
        if (one === "create") creation?.answer(made);
        else deletion?.answer({ bytes: new Uint8Array() });
        await clock.advance(0);
      }
      const failure = { code: "ABORTED", message: expect.stringContaining("volume v"), sent: true };
      expect(await create).toEqual({ failure });
      const again = call(plugin, "CreateVolume", { name: "n" });
      sent[2]?.answer(made);
      expect(await again).toEqual(made);
    });

    it("is not there for good either when the delete left behind the create", async () => {
      const plugin = open.over(connection());
      const create = call(plugin, "CreateVolume", { name: "n" });
      void call(plugin, "DeleteVolume", { volumeId: "v" });
      sent[0]?.answer(made);
      expect(await create).toMatchObject({ failure: { code: "ABORTED", sent: true } });
    });

    it("is there when a delete of another volume is open, or another call of it", async () => {
      const plugin = open.over(connection());
      void call(plugin, "DeleteVolume", { volumeId: "other" });
      void call(plugin, "ControllerPublishVolume", publish);
      const create = call(plugin, "CreateVolume", { name: "n" });
      sent[2]?.answer(made);
      expect(await create).toEqual(made);
    });
  });
});
