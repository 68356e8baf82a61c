import path from "node:path";
import { createAgentStreams } from "@holdfast/controller/nodes/agent-streams";
import { createLinkService } from "@holdfast/controller/nodes/link-service";
import { systemClock } from "@holdfast/shared/async/clock";
import { AgentServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import type { AgentLinkServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import { createGrpcClient } from "@holdfast/shared/grpc/client";
import { createGrpcServer } from "@holdfast/shared/grpc/server";
import { ServeWireDefinition } from "@holdfast/shared/grpc/stream/serve-wire";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { startProcess } from "../test/harness/managed-process.ts";
import { type Spread, spreadOf } from "./support/spread.ts";
import { transferNode } from "./support/transfer-sizes.ts";

export interface BesideTransfersPlan {
  readonly orders: number;
  readonly rounds: number;
}

/** How long an order takes, one at a time, over a stream on whose connection nothing else goes, and four transfers of 16 MiB. */
export interface BesideTransfers extends BesideTransfersPlan {
  readonly alone: Spread;
  readonly beside: Spread;
  /** That went meanwhile. */
  readonly transfers: number;
}

const atOnce = 4;

type Link = Implementation<typeof AgentLinkServiceDefinition>;

export const measureBesideTransfers = async (plan: BesideTransfersPlan): Promise<BesideTransfers> => {
  const log = createMemoryLogger();
  const clock = systemClock;
  const streams = createAgentStreams({ linked: () => undefined, unlinked: () => undefined });
  const server = createGrpcServer({ log, reflection: false });
  const link = { register: async () => ({ nodeEpoch: 1n }) } as Partial<Link> as Link;
  const { surround } = server;
  server.add(ServeWireDefinition, createLinkService({ streams, link, surround, clock, log, endOfTurn: setImmediate }));
  const address = await server.listen("127.0.0.1:0");
  const file = path.join(import.meta.dirname, "transfers-main.ts");
  const agent = startProcess({ name: "agent", command: [process.execPath, file, address] });
  try {
    await agent.line((line) => line["message"] === "ready", "its line `ready`");
    const client = createGrpcClient(AgentServiceDefinition, streams.channelTo(transferNode), { log });
    const round = async (into: number[]): Promise<void> => {
      for (let n = 0; n < plan.orders; n += 1) {
        const begun = performance.now();
        await client.stats({});
        into.push(performance.now() - begun);
      }
    };
    const alone: number[] = [];
    const beside: number[] = [];
    let transfers = 0;
    await round([]);
    for (let turn = 0; turn < plan.rounds; turn += 1) {
      await round(alone);
      let going = true;
      const lane = async (): Promise<void> => {
        while (going) {
          await client.relay({ plugin: "bench", method: "bench" });
          transfers += 1;
        }
      };
      const lanes = Array.from({ length: atOnce }, lane);
      await round(beside);
      going = false;
      await Promise.all(lanes);
    }
    return { ...plan, alone: spreadOf(alone), beside: spreadOf(beside), transfers };
  } finally {
    await agent.kill("SIGTERM");
    await server.stop({ graceMs: 0 });
  }
};
