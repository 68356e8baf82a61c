import {
  QuiesceRequest,
  RaiseFloorRequest,
  RelayRequest,
  RelayStreamRequest,
} from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import type { CallContext } from "@holdfast/shared/grpc/call-context";
import { beforeEach, describe, expect, test } from "vitest";
import type { AgentFacts } from "../domain/types.ts";
import { type AgentServiceOptions, createAgentService } from "./agent-service.ts";

const context = {
  identity: { role: "controller", name: "c1" },
  signal: new AbortController().signal,
  remainingMs: () => 1_000,
} as unknown as CallContext;

let starting: string | undefined;
let passed: string[];
let orders: unknown[];
let gates: unknown[];
let asked: unknown[];
let open: { plugin: string; subject: string; opId: string; words: string }[];
let promised: { readonly promisedGen: number; readonly promisedTo: string };

const service = () =>
  createAgentService({
    node: "n1",
    startingBecause: () => starting,
    onDoubt: () => undefined,
    ledger: {
      agent: () => promised as AgentFacts,
      async commitAgent(record) {
        if (record.type === "promised-gen") promised = { promisedGen: record.gen, promisedTo: record.uid ?? "" };
      },
    } as AgentServiceOptions["ledger"],
    relay: {
      async unary({ method, order, gate }) {
        passed.push(method);
        orders.push(order);
        gates.push(gate);
        return { response: new Uint8Array() };
      },
      async *stream({ method }) {
        passed.push(method);
        yield { response: new Uint8Array() };
      },
      async quiesce(one) {
        asked.push(one);
        return { idle: false, words: "busy", inDoubt: false };
      },
      openCalls: () => open,
    },
  } as Partial<AgentServiceOptions> as AgentServiceOptions);

const call = async (node: string) => service().relay(RelayRequest.fromPartial({ node, method: "call" }), context);
const stream = async (node: string) => {
  const request = RelayStreamRequest.fromPartial({ node, method: "stream" });
  for await (const item of service().relayStream(request, context)) expect(item).toBeDefined();
};

beforeEach(() => {
  starting = undefined;
  open = [];
  promised = { promisedGen: 0, promisedTo: "" };
  passed = [];
  orders = [];
  gates = [];
  asked = [];
});

describe("calls to plugins of this host", () => {
  test("reach none of them when they are meant for the host that had the address before", async () => {
    const refused = { reason: "NODE_MISMATCH", metadata: { node: "n1", wanted: "n2" } };
    await expect(call("n2")).rejects.toMatchObject(refused);
    await expect(stream("n2")).rejects.toMatchObject(refused);
    expect(passed).toEqual([]);
    // An empty name: a controller of an earlier version.
    for (const node of ["n1", ""]) await Promise.all([call(node), stream(node)]);
    expect(passed.toSorted()).toEqual(["call", "call", "stream", "stream"]);
  });

  test("carry their order, or none as those of an earlier version; one that cannot be counted with reaches none", async () => {
    const ordered = async (
      order: { readonly gen: bigint; readonly sequence: bigint; readonly opId: string; knownAs?: string[] } | undefined,
    ) => service().relay(RelayRequest.fromPartial({ node: "n1", method: "call", order }), context);
    const good = { gen: 2n, sequence: 2n ** 53n - 1n, opId: "op" };
    const knownAs = ["volume named n", "volume v"];
    await ordered(good);
    await ordered({ ...good, knownAs });
    await ordered(undefined);
    const passedOn = { gen: 2, sequence: Number.MAX_SAFE_INTEGER, opId: "op" };
    expect(orders).toEqual([{ ...passedOn, knownAs: [] }, { ...passedOn, knownAs }, undefined]);
    const bad = [
      { sequence: 2n ** 53n },
      { gen: 2n ** 60n },
      { opId: "" },
      { opId: "x".repeat(129) },
      { knownAs: [...knownAs, "volume w"] },
      { knownAs: ["x".repeat(1_025)] },
    ];
    for (const change of bad)
      await expect(ordered({ ...good, ...change })).rejects.toMatchObject({ reason: "INVALID_ARGUMENT" });
    expect(passed).toHaveLength(3);
  });

  test("name the life that is meant, or none as those of an earlier version", async () => {
    for (const gate of ["life-1", ""])
      await service().relay(RelayRequest.fromPartial({ node: "n1", method: "call", gate }), context);
    expect(gates).toEqual(["life-1", undefined]);
  });

  test("reach none of them before the agent is registered, as that of a clone of this node never is", async () => {
    starting = "it is not registered with a controller";
    await expect(call("n1")).rejects.toMatchObject({ reason: "AGENT_STARTING" });
    await expect(stream("n1")).rejects.toMatchObject({ reason: "AGENT_STARTING" });
    expect(passed).toEqual([]);
  });
});

describe("a promise", () => {
  const raise = async (gen: bigint, uid: string) =>
    service().raiseFloor(RaiseFloorRequest.fromPartial({ promisedGen: gen, vettingUid: uid }), context);

  test("is to one vetting, is answered as it stands, and tells what may be open at plugins", async () => {
    open = [{ plugin: "p", subject: "volume v", opId: "op-1", words: "a call" }];
    const mine = { promisedGen: 2n, vettingUid: "mine", openCalls: open };
    expect(await raise(2n, "mine")).toEqual(mine);
    for (const [gen, uid] of [
      [2n, "other"],
      [1n, "earlier"],
      [2n, ""],
    ] as const)
      expect(await raise(gen, uid)).toEqual(mine);
    expect(await raise(3n, "later")).toMatchObject({ promisedGen: 3n, vettingUid: "later" });
    for (const [gen, vetting] of [
      [2n ** 53n, "x"],
      [4n, "x".repeat(129)],
    ] as const)
      await expect(raise(gen, vetting)).rejects.toMatchObject({ reason: "INVALID_ARGUMENT" });
    await expect(raise(4n + 2n ** 20n, "x")).rejects.toMatchObject({ reason: "EPOCH_LEAP" });
    expect(promised).toEqual({ promisedGen: 3, promisedTo: "later" });
  });

  test("is made with the first call of a later vetting", async () => {
    const call = RelayRequest.fromPartial({ node: "n1", method: "call", gen: 4n, vettingUid: "later" });
    await service().relay(call, context);
    expect(promised).toEqual({ promisedGen: 4, promisedTo: "later" });
  });
});

describe("a subject that is asked to be quiet", () => {
  const good = { node: "n1", plugin: "p", gate: "life-1", subject: "volume v", gen: 2n, sequence: 2n ** 53n - 1n };
  const ask = async (change: Partial<QuiesceRequest> = {}) =>
    service().quiesce(QuiesceRequest.fromPartial({ ...good, ...change }), context);

  test("is asked with the order and the wait, which is no longer than the caller waits", async () => {
    expect(await ask({ wait: { seconds: 0n, nanos: 5e8 } })).toEqual({ idle: false, words: "busy", inDoubt: false });
    await ask({ wait: { seconds: 10n, nanos: 0 } });
    await ask();
    const order = { gen: 2, sequence: Number.MAX_SAFE_INTEGER };
    const vetting = { gen: 2, uid: "" };
    const same = { plugin: "p", gate: "life-1", subject: "volume v", order, vetting };
    expect(asked).toEqual([500, 1_000, 0].map((waitMs) => ({ ...same, waitMs })));
  });

  test("is not asked on another node, before the agent is registered, or without all that names it", async () => {
    await expect(ask({ node: "n2" })).rejects.toMatchObject({ reason: "NODE_MISMATCH" });
    for (const change of [
      { node: "" },
      { plugin: "" },
      { gate: "" },
      { subject: "" },
      { subject: "x".repeat(1_025) },
      { gen: 2n ** 53n },
      { sequence: 2n ** 60n },
      { wait: { seconds: 10n, nanos: 1 } },
      { wait: { seconds: -1n, nanos: 0 } },
    ])
      await expect(ask(change)).rejects.toMatchObject({ reason: "INVALID_ARGUMENT" });
    starting = "it is not registered with a controller";
    await expect(ask()).rejects.toMatchObject({ reason: "AGENT_STARTING" });
    expect(asked).toEqual([]);
  });
});
