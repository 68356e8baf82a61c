/** A part of the composition root: what is served to the programs of this host, whether or not a controller can be reached. */
import { addLocalServices } from "./api/local-services.ts";
import type { PluginHostServiceOptions } from "./api/plugin-host-service.ts";
import { type DockerWiring, wireDocker } from "./docker-wiring.ts";
import { createLocalServer } from "./local-server.ts";
import { wireNomad } from "./nomad-wiring.ts";
import type { VolumeStats } from "./volumes/volume-stats.ts";
import { createWorkloadServing } from "./workloads/workload-serving.ts";

export interface LocalWiring extends DockerWiring {
  readonly stats: VolumeStats;
  /** One life of the agent. */
  readonly instance: string;
  readonly hosting: Pick<PluginHostServiceOptions, "host" | "board" | "admission">;
}

export const wireLocal = async (deps: LocalWiring): Promise<void> => {
  const { config, ledger, workloads, stats, instance, hosting, lifecycle, metrics, clock, log } = deps;
  const { node, rootDir, localListen } = config;
  if (localListen !== undefined)
    await lifecycle.start("local gRPC", async () => {
      const local = createLocalServer({ log, metrics, group: config.localGroup });
      const servingLocally = addLocalServices(local, {
        workloads: createWorkloadServing({ node, ledger, workloads, stats, instance, clock }),
        pluginHost: { ...hosting, node, rootDir, run: instance, log },
      });
      log.info("listening for programs on this host", { address: await local.listen(localListen) });
      servingLocally();
      return () => local.stop({ graceMs: config.stopGrace });
    });
  workloads.resume();
  await wireDocker(deps);
  await wireNomad(deps);
};
