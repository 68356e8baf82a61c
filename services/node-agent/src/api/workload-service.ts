/** What the workload runner of this host asks, over the local socket. */
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { WorkloadServiceDefinition } from "@holdfast/shared/gen/holdfast/agent/v1/workload";
import type { CallContext, Implementation } from "@holdfast/shared/grpc/call-context";
import type { WorkloadName, WorkloadState } from "../domain/workload-machine.ts";
import { claimMessage } from "../workloads/convert-claim.ts";
import { workloadNotFound } from "../workloads/workload-errors.ts";
import type { WorkloadFeed } from "../workloads/workload-feed.ts";
import type { WorkloadManager } from "../workloads/workload-manager.ts";
import type { WorkloadStats } from "../workloads/workload-stats.ts";
import { createChecks } from "./checks.ts";
import { changeMessage, checkName, prepareFrom, statsMessage, waitFrom, workloadMessage } from "./convert-workload.ts";

export interface WorkloadServiceOptions {
  readonly node: string;
  readonly workloads: WorkloadManager;
  readonly stats: WorkloadStats;
  readonly feed: WorkloadFeed;
  readonly stateOf: (name: WorkloadName) => WorkloadState | undefined;
}

export function createWorkloadService(
  options: WorkloadServiceOptions,
): Implementation<typeof WorkloadServiceDefinition> {
  const { node, workloads, stats, feed, stateOf } = options;

  const allowed = ({ identity }: CallContext): void => {
    if (identity.role === "local") return;
    throw new HoldfastError({
      kind: "permission",
      reason: "PERMISSION_DENIED",
      message: `workloads of node ${node} are prepared over its local socket only, not for a ${identity.role}`,
    });
  };

  /** A little sooner than the caller gives up, so that it gets an answer and no broken call. */
  const within = (waitMs: number, context: CallContext): number => {
    const left = context.remainingMs();
    return Math.max(0, Math.min(waitMs, left - Math.min(250, left / 10)));
  };

  return {
    async prepareWorkload(request, context) {
      allowed(context);
      const { order, waitMs } = prepareFrom(request);
      const view = await workloads.prepare(order, within(waitMs, context), context.signal);
      return { workload: workloadMessage(view, node) };
    },

    async releaseWorkload(request, context) {
      allowed(context);
      const checks = createChecks();
      const name = checkName(checks, request);
      const waitMs = waitFrom(checks, request.waitFor, 0);
      checks.end();
      const remaining = await workloads.release(
        { ...name, ticket: request.ticket },
        within(waitMs, context),
        context.signal,
      );
      return { unmounted: remaining.length === 0, remaining: remaining.map((claim) => claimMessage(claim, node)) };
    },

    async getWorkload(request, context) {
      allowed(context);
      const checks = createChecks();
      const name = checkName(checks, request);
      checks.end();
      return { workload: workloadMessage(await workloads.get(name), node) };
    },

    async getWorkloadStats(request, context) {
      allowed(context);
      const checks = createChecks();
      const name = checkName(checks, request);
      checks.end();
      const state = stateOf(name);
      if (state === undefined) throw workloadNotFound(name);
      return statsMessage(await stats.of(state));
    },

    async *watchWorkloads({ namespace, workload, resumeToken }, context) {
      allowed(context);
      const checks = createChecks();
      if (namespace !== "") checks.id("namespace", namespace);
      if (workload !== "") checks.workload("workload", workload);
      checks.that(workload === "" || namespace !== "", "namespace", "is required with a workload");
      checks.end();
      for await (const change of feed.watch({ namespace, workload }, resumeToken, context.signal))
        yield changeMessage(change, node);
    },
  };
}
