import path from "node:path";
import { noGrants, wireAccess } from "@holdfast/controller/access-wiring";
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
  readonly rounds: number;
}

/**
 * How long an order takes, one at a time, over a stream on whose connection nothing else goes, and beside four transfers of 16 MiB, from
 * their beginning to their end.
 */
export interface BesideTransfers extends BesideTransfersPlan {
  readonly alone: Spread;
  readonly beside: Spread;
  /** That went meanwhile. */
  readonly transfers: number;
}

const atOnce = 4;
const warmUpOrders = 3_000;

type Link = Implementation<typeof AgentLinkServiceDefinition>;

export const measureBesideTransfers = async (plan: BesideTransfersPlan): Promise<BesideTransfers> => {
  const log = createMemoryLogger();
  const clock = systemClock;
  const streams = createAgentStreams({ linked: () => undefined, unlinked: () => undefined });
  const server = createGrpcServer({ log, reflection: false });
  const link = { register: async () => ({ nodeEpoch: 1n }) } as Partial<Link> as Link;
  const { surround } = server;
  const { admission } = wireAccess("loopback", noGrants);
  server.add(
    ServeWireDefinition,
    createLinkService({ admission, streams, link, surround, clock, log, endOfTurn: setImmediate }),
  );
  const address = await server.listen("127.0.0.1:0");
  const file = path.join(import.meta.dirname, "transfers-main.ts");
  const agent = startProcess({ name: "agent", command: [process.execPath, file, address] });
  try {
    await agent.line((line) => line["message"] === "ready", "its line `ready`");
    const client = createGrpcClient(AgentServiceDefinition, streams.channelTo(transferNode), { log });
    const order = async (into: number[]): Promise<void> => {
      const begun = performance.now();
      await client.stats({});
      into.push(performance.now() - begun);
    };
    const alone: number[] = [];
    const beside: number[] = [];
    for (const warmUp: number[] = []; warmUp.length < warmUpOrders; ) await order(warmUp);
    for (let turn = 0; turn < plan.rounds; turn += 1) {
      let open = atOnce;
      const transfer = (): Promise<void> =>
        client.relay({ plugin: "bench", method: "bench" }).then(() => {
          open -= 1;
        });
      const transfers = Promise.all(Array.from({ length: atOnce }, transfer));
      while (open > 0) await order(beside);
      await transfers;
      while (alone.length < beside.length) await order(alone);
    }
    return { ...plan, alone: spreadOf(alone), beside: spreadOf(beside), transfers: plan.rounds * atOnce };
  } finally {
    await agent.kill("SIGTERM");
    await server.stop({ graceMs: 0 });
  }
};
