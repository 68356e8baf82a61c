import { FenceNodeResponse, NodeState } from "@holdfast/shared/gen/holdfast/v1/node";
import { expect, test } from "vitest";
import type { Input } from "../../frame/command.ts";
import type { Context } from "../../frame/context.ts";
import { fenceNode } from "./fence-node.ts";

const since = new Date(10_000);
const [before, after] = [new Date(9_000), new Date(11_000)];

const fencing = (remaining: readonly object[]) =>
  FenceNodeResponse.fromPartial({
    node: { name: "n1", state: NodeState.NODE_STATE_FENCING, stateSince: since },
    remaining: remaining.map((one) => ({ namespace: "default", volume: "data", ...one })),
    remainingCount: BigInt(remaining.length),
  });
const over = FenceNodeResponse.fromPartial({ node: { name: "n1", state: NodeState.NODE_STATE_QUARANTINED } });

/** What the command answers when the controller answers so, one after the other. */
const run = async (...answers: readonly FenceNodeResponse[]) => {
  const left = [...answers];
  const fence = async () => left.shift() ?? over;
  const shown: unknown[] = [];
  const context = {
    clients: { nodes: { fenceNode: fence, getNode: async () => ({ node: { nodeEpoch: 1n } }) } },
    out: { answer: (answer: unknown) => void shown.push(answer) },
    async wait({ watch, settled }: Parameters<Context["wait"]>[0]) {
      for await (const state of watch(new AbortController().signal)) {
        const result = settled(state);
        if (result !== undefined) return result;
      }
      return undefined;
    },
  };
  const input: Input = {
    arg: () => "n1",
    optionalArg: () => undefined,
    args: () => [],
    text: (name) => (name === "powered-off" || name === "reason" ? "seen" : undefined),
    list: () => [],
    flag: (name) => name === "wait",
  };
  await fenceNode.run(context as unknown as Context, input);
  return { shown: shown.length, left: left.length };
};

const blocked = (reason: string) => ({ reason, message: "no", clearWith: "do something" });
const refused = { blocked: blocked("PLUGIN_REFUSED"), lastError: { at: after } };

test.each([
  ["a claim whose detach was refused", [{ claimUid: "c", workload: "job", state: "DETACHING", ...refused }]],
  ["an attachment whose detach was refused", [{ state: "DETACHING", ...refused }]],
])("node fence ends its wait for %s", async (_, remaining) => {
  await expect(run(fencing([]), fencing(remaining))).rejects.toMatchObject({
    exitCode: 7,
    reason: "PLUGIN_REFUSED",
    next: ["do something", "holdfast repair stuck --node n1"],
  });
});

test.each([
  [
    "what the fence has not come to yet",
    [{ claimUid: "c", state: "RELEASING", blocked: blocked("NODE_SILENT"), lastError: { at: after } }],
  ],
  [
    "what was not tried since",
    [{ claimUid: "c", state: "DETACHING", blocked: blocked("PLUGIN_REFUSED"), lastError: { at: before } }],
  ],
  [
    "what is blocked beside what is not",
    [
      { state: "DETACHING", ...refused },
      { state: "DETACHING", lastError: { at: after } },
    ],
  ],
])("node fence waits on for %s", async (_, remaining) => {
  expect(await run(fencing([]), fencing(remaining), fencing(remaining))).toEqual({ shown: 1, left: 0 });
});
