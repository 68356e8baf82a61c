/** A part of the composition root: the Docker volume plugin, over the workloads of this host. */
import type { Clock } from "@holdfast/shared/async/clock";
import type { Lifecycle } from "@holdfast/shared/lifecycle";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Metrics } from "@holdfast/shared/metrics";
import type { Tracing } from "@holdfast/shared/tracing";
import type { AgentConfig } from "./config.ts";
import type { ControllersToAsk } from "./controller-link/ask-controllers.ts";
import { createControllerLinkVolumes, type VolumesClient } from "./controller-link/controller-link-volumes.ts";
import { createAbandonedIds } from "./docker/abandoned-ids.ts";
import { createDaemonLife } from "./docker/daemon-life.ts";
import { createDockerTemplates } from "./docker/docker-templates.ts";
import { createDriverServer } from "./docker/driver-server.ts";
import { createKnownVolumes } from "./docker/known-volumes.ts";
import { createMountIds } from "./docker/mount-ids.ts";
import { createVolumeDriver } from "./docker/volume-driver.ts";
import { createSoleClaims } from "./host-volumes/sole-claims.ts";
import type { Ledger, MountTable } from "./ports.ts";
import type { WorkloadManager } from "./workloads/workload-manager.ts";

export interface DockerWiring {
  readonly config: AgentConfig;
  readonly asking: ControllersToAsk<VolumesClient>;
  readonly ledger: Ledger;
  readonly workloads: WorkloadManager;
  readonly mounts: MountTable;
  readonly lifecycle: Pick<Lifecycle, "start" | "signal">;
  readonly metrics: Metrics;
  readonly tracing: Tracing;
  readonly clock: Clock;
  readonly log: Logger;
}

export const wireDocker = async (deps: DockerWiring): Promise<void> => {
  const { config, asking, ledger, workloads, mounts, lifecycle, metrics, tracing, clock, log } = deps;
  const { dockerSocket, dockerNamespace: namespace, node } = config;
  if (dockerSocket === undefined) return;
  const { signal } = lifecycle;
  const daemon = createDaemonLife(config.dockerPidFile);
  const ids = createMountIds({ ledger, workloads, namespace, node, signal });
  const volumes = createControllerLinkVolumes({ ...asking, namespace, madeBy: "docker" });
  const mounted = () => ids.volumes().map(([volume]) => volume);
  const known = createKnownVolumes({ volumes, mounted, clock, signal });
  const driver = createVolumeDriver({
    ...{ namespace, volumes, known, ids, daemon, clock, log, signal },
    claims: createSoleClaims({ volumesIn: () => volumes, workloads, clock, signal }),
    templates: createDockerTemplates(config.dockerTemplates),
    waitMs: config.dockerWait,
  });
  metrics.gauge({
    name: "holdfast_docker_mounts",
    help: "Mounts of Docker that the journal holds; one claim stands for all of a volume.",
    collect: (gauge) =>
      gauge.set(
        {},
        ids.volumes().reduce((sum, [, held]) => sum + held.length, 0),
      ),
  });
  await lifecycle.start("docker volume plugin", async () => {
    const now = () => clock.monotonic();
    const server = createDriverServer({ driver, namespace, log, metrics, tracing, now, signal });
    await server.listen(dockerSocket);
    // Ends with the agent.
    void known.warm().catch(() => undefined);
    log.info("listening for dockerd", { socket: dockerSocket, namespace });
    return () => server.stop();
  });
  const { rootDir, mountCheckInterval } = config;
  createAbandonedIds({ ids, workloads, mounts, rootDir, daemon, clock, log, signal }).start(mountCheckInterval);
};
