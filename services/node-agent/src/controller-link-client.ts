/** Channels to controllers: one each, held open. */
import { ControllerLinkServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { NodeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/node";
import { createGrpcChannel, createGrpcClient, type GrpcChannel } from "@holdfast/shared/grpc/client";
import type { Logger } from "@holdfast/shared/log/logger";
import type { ClaimsClient } from "./controller-link-claims.ts";
import type { PeerClient } from "./controller-link-peer.ts";

export interface ControllerDialer {
  dial(address: string): PeerClient & ClaimsClient;
  close(): void;
}

/** How one controller sees this node, asked over a channel of its own. */
export async function askController(
  address: string,
  node: string,
  log: Logger,
): Promise<{ lastHeartbeat: Date | undefined }> {
  const channel = createGrpcChannel(address, { ownConnection: true });
  try {
    const client = createGrpcClient(NodeServiceDefinition, channel, { log, identity: { role: "node", name: node } });
    const { node: seen } = await client.getNode({ name: node }, { deadlineMs: 3_000 });
    return { lastHeartbeat: seen?.lastHeartbeat };
  } finally {
    channel.close();
  }
}

export function dialController({ log, node }: { readonly log: Logger; readonly node: string }): ControllerDialer {
  const channels: GrpcChannel[] = [];
  return {
    dial(address) {
      // Of its own: claims that wait fill the streams of a connection, and heartbeats must not stand behind them.
      const channel = createGrpcChannel(address, {
        ownConnection: true,
        keepalive: { timeMs: 30_000, timeoutMs: 10_000 },
      });
      channels.push(channel);
      return createGrpcClient(ControllerLinkServiceDefinition, channel, {
        log,
        identity: { role: "node", name: node },
      });
    },
    close() {
      for (const channel of channels.splice(0)) channel.close();
    },
  };
}
