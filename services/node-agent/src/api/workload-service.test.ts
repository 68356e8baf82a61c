import { PrepareWorkloadRequest, ReleaseWorkloadRequest } from "@holdfast/shared/gen/holdfast/agent/v1/workload";
import type { CallContext } from "@holdfast/shared/grpc/call-context";
import { expect, test } from "vitest";
import { createWorkloadService } from "./workload-service.ts";

type Options = Parameters<typeof createWorkloadService>[0];

const contextOf = (role: "local" | "node"): CallContext =>
  ({ identity: { role, name: "" }, signal: new AbortController().signal, remainingMs: () => 1_000 }) as CallContext;
const name = { namespace: "ns", workload: "web" };

/** What the workloads were asked for. */
const served = () => {
  const asked: unknown[] = [];
  const workloads = {
    async prepare({ ticket }: { readonly ticket: string }) {
      asked.push(["prepare", ticket]);
      return { ...name, ready: true, mounts: [], claims: [] };
    },
    async release(wish: object) {
      asked.push(["release", wish]);
      return [];
    },
  };
  const service = createWorkloadService({ node: "n1", workloads } as unknown as Options);
  return { asked, service };
};
const prepare = PrepareWorkloadRequest.fromPartial({
  ...name,
  ticket: "t1",
  volumes: [{ claim: { volume: "data" } }],
});
const release = ReleaseWorkloadRequest.fromPartial({ ...name, ticket: "t2" });

test("the ticket of a call is that of the workload that it names", async () => {
  const { asked, service } = served();
  await service.prepareWorkload(prepare, contextOf("local"));
  await service.releaseWorkload(release, contextOf("local"));
  expect(asked).toEqual([
    ["prepare", "t1"],
    ["release", { ...name, ticket: "t2" }],
  ]);
});

test("a caller that is not local gets nothing", async () => {
  const { asked, service } = served();
  for (const call of [
    () => service.prepareWorkload(prepare, contextOf("node")),
    () => service.releaseWorkload(release, contextOf("node")),
  ])
    await expect(call()).rejects.toMatchObject({ reason: "PERMISSION_DENIED" });
  expect(asked).toEqual([]);
});
