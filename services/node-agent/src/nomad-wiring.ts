/** A part of the composition root: Nomad's dynamic host volumes, over the workloads of this host. */
import { hash } from "node:crypto";
import { createControllerLinkVolumes } from "./controller-link/controller-link-volumes.ts";
import type { DockerWiring } from "./docker-wiring.ts";
import { createSoleClaims } from "./host-volumes/sole-claims.ts";
import { createNomadServer } from "./nomad/nomad-server.ts";
import { createNomadVolumes, madeByNomad } from "./nomad/nomad-volumes.ts";

export type NomadWiring = Omit<DockerWiring, "mounts">;

export const wireNomad = async (deps: NomadWiring): Promise<void> => {
  const { config, asking, ledger, workloads, lifecycle, metrics, tracing, clock, log } = deps;
  const { nomadSocket, node } = config;
  if (nomadSocket === undefined) return;
  const { signal } = lifecycle;
  const volumesIn = (namespace: string) => createControllerLinkVolumes({ ...asking, namespace, madeBy: madeByNomad });
  const claims = createSoleClaims({ volumesIn, workloads, clock, signal });
  const salted = (text: string) => hash("sha256", `${ledger.uid}|${text}`, "hex");
  const volumes = createNomadVolumes({ node, volumesIn, claims, hash: salted, clock });
  await lifecycle.start("Nomad volume plugin", async () => {
    const now = () => clock.monotonic();
    const server = createNomadServer({ volumes, log, metrics, tracing, now, signal });
    await server.listen(nomadSocket);
    log.info("listening for Nomad", { socket: nomadSocket });
    return () => server.stop();
  });
};
