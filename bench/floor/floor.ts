import path from "node:path";
import { ClaimServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/claim";
import { createClient } from "nice-grpc";
import { volumeName } from "../product.ts";
import type { MeasuredSubject } from "../support/subject.ts";
import { startStillPlugin, startWorkingPlugins } from "./floor-plugins.ts";
import { createFloorProcesses } from "./floor-processes.ts";
import { createFloorChannel, floorTlsOf, floorTlsVariable } from "./floor-tls.ts";
import { writeFloorVolumes } from "./floor-volumes.ts";
import { createClaimsMessage, releaseClaimsMessage } from "./messages.ts";

export interface FloorOptions {
  readonly dir: string;
  readonly redis: string;
  /** How many it can be asked for. */
  readonly volumes: number;
  /** One that does nothing, or those that the product has. */
  readonly plugins: "still" | "working";
  /** Every process but the plugins sends its spans there, and has deadlines and retries. */
  readonly otlpEndpoint?: string;
  /** Of a certificate that every end of a TCP connection has: docs/adr/0025-the-floor-speaks-tls-too.md. */
  readonly tlsDir?: string;
}

/**
 * What nobody can go below with these libraries on this machine: the calls, commits and syncs of a claim and of a release,
 * back to back, between processes that check and remember nothing. docs/adr/0008-what-the-floor-of-the-bench-is.md says why it has two forms.
 */
export const startFloor = async (options: FloorOptions): Promise<MeasuredSubject> => {
  const { dir, redis, volumes, otlpEndpoint, tlsDir } = options;
  const { start, stop } = createFloorProcesses(tlsDir === undefined ? {} : { [floorTlsVariable]: tlsDir });
  const plugins =
    options.plugins === "still" ? await startStillPlugin(dir, volumes, start) : await startWorkingPlugins(dir, volumes);
  const file = path.join(dir, "volumes.json");
  writeFloorVolumes(file, plugins.volumes);
  const traced = otlpEndpoint === undefined ? [] : [otlpEndpoint];
  const agent = await start("agent", file, plugins.node, path.join(dir, "floor.journal"), ...traced);
  const controller = await start("controller", file, plugins.controller, agent.address, redis, ...traced);
  const channel = createFloorChannel(controller.address, floorTlsOf(tlsDir));
  const client = createClient(ClaimServiceDefinition, channel);
  return {
    name: "floor",
    claim: async (index) => void (await client.createClaims(createClaimsMessage(volumeName(index)))),
    release: async (index) => void (await client.releaseClaims(releaseClaimsMessage(volumeName(index)))),
    externalId: (index) => plugins.volumes[index]?.id ?? "",
    callTimes: plugins.callTimes,
    pids: { controller: [controller.pid], agent: [agent.pid], ...plugins.pids },
    stop: async () => {
      channel.close();
      await stop();
      await plugins.stop();
    },
  };
};
