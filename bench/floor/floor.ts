import path from "node:path";
import { ClaimServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/claim";
import { createChannel, createClient } from "nice-grpc";
import { type ManagedProcess, startProcess } from "../../test/harness/managed-process.ts";
import type { Subject } from "../support/subject.ts";
import { createClaimsMessage, releaseClaimsMessage } from "./messages.ts";

export interface FloorOptions {
  readonly dir: string;
  readonly redis: string;
  /** Every process but the plugin sends its spans there, and has deadlines and retries. */
  readonly otlpEndpoint?: string;
}

/**
 * What nobody can go below with these libraries on this machine: the calls, commits and syncs of a claim and of a release,
 * back to back, between processes that check and remember nothing. docs/adr/0008-what-the-floor-of-the-bench-is.md says why it has two forms.
 */
export const startFloor = async ({ dir, redis, otlpEndpoint }: FloorOptions): Promise<Subject> => {
  const started: ManagedProcess[] = [];
  const start = async (name: string, ...args: string[]): Promise<{ address: string; pid: number }> => {
    const file = path.join(import.meta.dirname, `${name}-main.ts`);
    const process_ = startProcess({ name: `floor ${name}`, command: [process.execPath, file, ...args] });
    started.push(process_);
    const line = await process_.line((one) => one["message"] === "ready", "its line `ready`");
    return { address: String(line["address"]), pid: process_.pid };
  };
  const traced = otlpEndpoint === undefined ? [] : [otlpEndpoint];
  const socket = path.join(dir, "floor.sock");
  const plugin = await start("plugin", socket);
  const agent = await start("agent", socket, path.join(dir, "floor.journal"), ...traced);
  const controller = await start("controller", socket, agent.address, redis, ...traced);
  const channel = createChannel(controller.address);
  const client = createClient(ClaimServiceDefinition, channel);
  const nameOf = (index: number): string => `v${index}`;
  return {
    name: "floor",
    claim: async (index) => void (await client.createClaims(createClaimsMessage(nameOf(index)))),
    release: async (index) => void (await client.releaseClaims(releaseClaimsMessage(nameOf(index)))),
    pids: { controller: [controller.pid], agent: [agent.pid], plugins: [plugin.pid] },
    stop: async () => {
      channel.close();
      for (const each of started.reverse()) await each.kill("SIGTERM");
    },
  };
};
