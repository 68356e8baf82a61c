import { ControllerDefinition } from "@holdfast/shared/gen/csi/v1/csi";
import { AgentServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import { ClaimServiceDefinition, ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { Redis } from "ioredis";
import { announce } from "./announce.ts";
import { equipmentOf } from "./equipment.ts";
import { floorTls } from "./floor-tls.ts";
import { readFloorVolumes } from "./floor-volumes.ts";
import { attachMessage, claimMessage, detachMessage, permitMessage, releaseMessage } from "./messages.ts";
import { volumeRecord } from "./records.ts";
import { stub } from "./stub.ts";

/** node controller-main.ts VOLUMES SOCKET AGENT REDIS [OTLP]: stands for the controller: two calls, three commits for one call. */
const [file = "", socket = "", agentAddress = "", redisUrl = "", otlpEndpoint] = process.argv.slice(2);
const volumeOf = readFloorVolumes(file);
const equipment = await equipmentOf("floor-controller", otlpEndpoint);
const plugin = equipment.client(ControllerDefinition, `unix://${socket}`);
const agent = equipment.client(AgentServiceDefinition, agentAddress);
const redis = new Redis(redisUrl);

const library = `#!lua name=hf_floor
redis.register_function('hf_floor_cas', function(keys, args)
  if (redis.call('HGET', keys[1], 'rev') or '0') ~= args[1] then return redis.error_reply('STALE') end
  redis.call('HSET', keys[1], 'rev', args[2], 'json', args[3])
  return args[2]
end)`;
await redis.call("FUNCTION", "LOAD", "REPLACE", library);

/** Compares and sets as the product's store does; the revision is remembered, never read. */
const createCommit = (): ((volume: string) => Promise<void>) => {
  const revisions = new Map<string, number>();
  return async (volume) => {
    const before = revisions.get(volume) ?? 0;
    const after = before + 1;
    await redis.fcall("hf_floor_cas", 1, `{hf:floor}:volume:${volume}`, before, after, volumeRecord(volume, after));
    revisions.set(volume, after);
  };
};
const commit = createCommit();

const server = equipment.server();
server.add(
  ClaimServiceDefinition,
  stub({
    createClaims: async ({ claims: [spec] }) => {
      const volume = volumeOf(spec?.volume ?? "");
      await commit(volume.name);
      const { publishContext } = await plugin.controllerPublishVolume(attachMessage(volume));
      await commit(volume.name);
      await agent.publish(permitMessage(volume, publishContext));
      await commit(volume.name);
      return { claims: [claimMessage(volume, ClaimState.CLAIM_STATE_ACTIVE)] };
    },
    releaseClaims: async ({ workload }) => {
      const volume = volumeOf(workload.slice("w-".length));
      await commit(volume.name);
      await agent.release(releaseMessage(volume));
      await commit(volume.name);
      await plugin.controllerUnpublishVolume(detachMessage(volume));
      await commit(volume.name);
      return { claims: [claimMessage(volume, ClaimState.CLAIM_STATE_RELEASED)] };
    },
  }),
);
announce(`127.0.0.1:${await server.listen("127.0.0.1:0", floorTls?.server)}`);
