/**
 * A whole scheduler in one page: it places workloads over the nodes that there are, gives each its volume, and preempts one whose
 * volume a more important one needs. All that it knows of storage is four calls: CheckPlacement, CreateClaims, HandOver, ReleaseClaims.
 *
 *   HOLDFAST_ADDRESS=127.0.0.1:7600 node examples/toy-scheduler.ts <plugin>
 */
import { ClaimGoal, ClaimServiceDefinition, type ClaimSpec, ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { AccessMode, AttachmentMode } from "@holdfast/shared/gen/holdfast/v1/common";
import { PlacementServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/placement";
import { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { createTracing } from "@holdfast/shared/tracing";

interface Workload {
  readonly name: string;
  readonly priority: number;
  readonly volume: string;
}

export interface Started {
  readonly node: string;
  /** The directory that the workload's processes are given. */
  readonly path: string;
}

export interface ToySchedulerOptions {
  readonly address: string;
  readonly plugin: string;
  readonly say: (line: string) => void;
  /** What a node would do: start the processes, and stop them. Resolves when they run, or are gone. */
  start(workload: string, where: Started): Promise<void>;
  stop(workload: string): Promise<void>;
}

const namespace = "toys";
const minute = { seconds: 60n, nanos: 0 };
const tracing = createTracing("toy-scheduler");

export const runToyScheduler = async ({ address, plugin, say, start, stop }: ToySchedulerOptions): Promise<void> => {
  const channel = createGrpcChannel(address);
  const options = { log: createMemoryLogger(), identity: { role: "scheduler", name: "toy" } as const };
  const volumes = createGrpcClient(VolumeServiceDefinition, channel, { ...options, defaultDeadlineMs: 90_000 });
  const claims = createGrpcClient(ClaimServiceDefinition, channel, { ...options, defaultDeadlineMs: 90_000 });
  const placement = createGrpcClient(PlacementServiceDefinition, channel, options);

  /** The best node for a workload, as if `leaving` had gone already. */
  const place = async ({ name, volume }: Workload, leaving: readonly string[], not = ""): Promise<string> => {
    const wanted: Pick<ClaimSpec, "volume">[] = [{ volume }];
    const request = { namespace, workload: name, claims: wanted, afterWorkloads: [...leaving], feasibleOnly: true };
    const { nodes } = await placement.checkPlacement(request);
    const [best] = nodes.filter(({ node }) => node !== not).sort((a, b) => b.score - a.score);
    if (best === undefined) throw new Error(`no node can have volume ${volume} of workload ${name}`);
    return best.node;
  };

  /** Claimed, mounted, started. The same call again, after any failure, is the same claim. */
  const launch = async ({ name, volume }: Workload, node: string): Promise<void> => {
    const request = {
      namespace,
      workload: name,
      node,
      claims: [{ volume }],
      queue: { enabled: true },
      waitFor: minute,
    };
    const [claim] = (await claims.createClaims(request)).claims;
    if (claim?.state !== ClaimState.CLAIM_STATE_ACTIVE)
      throw new Error(
        `workload ${name} did not get volume ${volume}: ${claim?.waitingFor} ${claim?.lastError?.message}`,
      );
    await start(name, { node, path: claim.hostPath });
    say(`${name} runs on ${node} with ${volume}`);
  };

  /** The processes first, the volume then: what is released is not in use any more. */
  const end = async ({ name }: Workload): Promise<void> => {
    await stop(name);
    await claims.releaseClaims({ namespace, workload: name, waitFor: minute });
    const goal = ClaimGoal.CLAIM_GOAL_RELEASED;
    for await (const { settled } of claims.waitClaims({ namespace, workload: name, goal })) if (settled) break;
    say(`${name} is gone and has given its volume back`);
  };

  const web: Workload = { name: "web", priority: 1, volume: "data" };
  const report: Workload = { name: "report", priority: 9, volume: "data" };
  try {
    const capabilities = [
      {
        attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
        accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER,
      },
    ];
    await volumes.createVolume({
      namespace,
      id: "data",
      plugin,
      capacity: { requiredBytes: 64n << 20n },
      capabilities,
      waitFor: minute,
    });

    // One trace a workload, from its placement to its end, through every service that works for it.
    let place1 = "";
    let preempt = (): void => undefined;
    const preempted = new Promise<void>((resolve) => {
      preempt = resolve;
    });
    const running = Promise.withResolvers<void>();
    const first = tracing.span("workload web", {}, async () => {
      place1 = await place(web, []);
      await launch(web, place1);
      running.resolve();
      await preempted;
      await end(web);
    });
    await Promise.race([running.promise, first]);
    await tracing.span("workload report", {}, async () => {
      const node = await place(report, [web.name], place1);
      say(`${report.name} (priority ${report.priority}) preempts ${web.name} (priority ${web.priority})`);
      // Reserved before the holder is asked to go: nobody else gets in between.
      await claims.handOver({ namespace, fromWorkload: web.name, toWorkload: report.name, toNode: node });
      preempt();
      await launch(report, node);
      await end(report);
    });
    await first;
    await volumes.deleteVolume({ namespace, id: "data", waitFor: minute });
    say("the volume is deleted");
  } finally {
    channel.close();
  }
};
