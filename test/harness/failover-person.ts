/** What a scheduler and a person do about a store that has forgotten something, as the pages in docs/ tell them. */
import path from "node:path";
import { ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { OrphanKind } from "@holdfast/shared/gen/holdfast/v1/repair";
import { type Volume, VolumeState } from "@holdfast/shared/gen/holdfast/v1/volume";
import { serviceProgram } from "../support/service-program.ts";
import type { Cluster } from "./cluster.ts";
import type { FailoverWorkload } from "./failover-workload.ts";
import { startProcess } from "./managed-process.ts";
import { fileWriter, namespace, reasonOf } from "./scenario.ts";

export interface FailoverPerson {
  /** One look, and what can be done about what is seen. */
  look(): Promise<void>;
  /** docs/total-loss.md, from its first step to its fifth; the sixth is done by looks afterwards. */
  recover(): Promise<void>;
  /**
   * Holds that the store had forgotten and that were given up; histories that were taken for the true one; volumes that got a record anew;
   * attachments that the store had forgotten and that were removed.
   */
  readonly counts: Readonly<Record<"foreign" | "accepted" | "registered" | "detached", number>>;
}

export interface PersonOptions {
  readonly cluster: Cluster;
  readonly sides: readonly Cluster[];
  readonly nodes: readonly string[];
  /** The store's URL. */
  readonly url: string;
  readonly workload: FailoverWorkload;
}

/** Longer than a controller waits before it looks at its store again. */
const patienceMs = 5_000;

const controllerMain = serviceProgram("controller");

export const createFailoverPerson = (options: PersonOptions): FailoverPerson => {
  const { cluster, sides, nodes, url, workload } = options;
  const counts = { foreign: 0, accepted: 0, registered: 0, detached: 0 };
  let recovered = 0;

  /** Workloads that were let go of, by word of a store that has forgotten it: their scheduler says it again, as it does after any restart. */
  const releaseLost = async (side: Cluster): Promise<void> => {
    const { claims } = await side.claims.listClaims({ filter: { namespace } }).catch(() => ({ claims: [] }));
    const forgotten = claims.filter(
      ({ workload: name, state }) => !workload.holds(name) && state === ClaimState.CLAIM_STATE_ACTIVE,
    );
    for (const { workload: name } of forgotten)
      await side.claims.releaseClaims({ namespace, workload: name }).catch(() => undefined);
  };
  /** The workload is known to be stopped. */
  const giveUpForeign = async ({ repair }: Cluster): Promise<void> => {
    const { stuck } = await repair.listStuck({ pageSize: 100 }).catch(() => ({ stuck: [] }));
    for (const { state, volume, workload: name, claimUid } of stuck) {
      if (state !== "FOREIGN" || workload.holds(name)) continue;
      const verb = { namespace, volume, workload: name, claimUid, evidence: "it was stopped", reason: "test" };
      const { outcome } = await repair.abandonClaim({ ...verb, dryRun: true }).catch(() => ({ outcome: undefined }));
      // An agent that is not heard may still have it mounted: nobody can say more than that the workload has stopped.
      if (outcome?.consequence?.effects[0]?.startsWith("the agent of node") !== true) continue;
      const given = await reasonOf(repair.abandonClaim({ ...verb, confirm: outcome.confirmWith }));
      counts.foreign += Number(given === "done");
    }
  };
  /** The command that a claim shows whose plugin refuses it beside an attachment that no record explains. */
  const removeForgotten = async ({ repair }: Cluster): Promise<void> => {
    const { stuck } = await repair.listStuck({ pageSize: 100 }).catch(() => ({ stuck: [] }));
    if (!stuck.some(({ blocked }) => blocked?.reason === "FOREIGN_ATTACHMENT")) return;
    const kinds = [OrphanKind.ORPHAN_KIND_ATTACHMENT];
    try {
      for await (const { cleaned } of repair.scanOrphans({ kinds, clean: kinds, reason: "no record explains it" }))
        counts.detached += Number(cleaned);
    } catch {
      // It is still stuck at the next look.
    }
  };
  const shutSince = new Map<Cluster, number>();
  /** Nodes have promised something to the history that is over, and only a person knows that it is. Controllers that have seen it pass it. */
  const acceptHistory = async (side: Cluster): Promise<void> => {
    const { open, findings } = await side.repair.vet({}).catch(() => ({ open: true, findings: [] }));
    if (open || !findings.some(({ message }) => message.startsWith("OTHER_HISTORY"))) {
      shutSince.delete(side);
      return;
    }
    const since = shutSince.get(side) ?? performance.now();
    shutSince.set(side, since);
    if (performance.now() - since < patienceMs) return;
    const accepted = await reasonOf(side.repair.vet({ accept: true, reason: "the other history is over" }));
    counts.accepted += Number(accepted === "done");
  };
  /** What no agent held has no record after a total loss, and what was half made or half gone none that can be used. */
  const registerAnew = async ({ id, plugin, externalId, context }: Volume): Promise<void> => {
    const found = await cluster.volumes.getVolume({ namespace, id }).then(
      ({ volume }) => volume,
      (error: { reason?: string }) => (error.reason === "VOLUME_NOT_FOUND" ? "none" : undefined),
    );
    if (found !== undefined && found !== "none" && found.state === VolumeState.VOLUME_STATE_FAILED)
      await cluster.volumes.deregisterVolume({ namespace, id }).catch(() => undefined);
    if (found !== "none") return;
    const spec = { namespace, id, plugin, externalId, context, capabilities: [fileWriter] };
    counts.registered += Number((await reasonOf(cluster.volumes.registerVolume(spec))) === "done");
  };

  const run = async (command: readonly string[]): Promise<void> => {
    const stateDir = path.join(cluster.dir, "controller");
    const process_ = startProcess({
      name: command.join(" "),
      command: [process.execPath, controllerMain, ...command],
      env: {
        HOLDFAST_STORE: url,
        HOLDFAST_STATE_DIR: stateDir,
        HOLDFAST_PLUGIN_DIR: path.join(cluster.dir, "cp"),
        HOLDFAST_AGENT_LISTEN: cluster.agentAddress,
      },
    });
    const code = await process_.exited();
    if (code !== 0) throw new Error(`${process_.name} ended with ${code}: ${process_.output()}`);
  };

  return {
    counts,
    async look() {
      // They may be at two masters for a while, of which neither knows what the other one has.
      const one = async (side: Cluster): Promise<void> => {
        await releaseLost(side);
        await giveUpForeign(side);
        await acceptHistory(side);
      };
      // One that does not reach its store answers late.
      await Promise.all(sides.map(one));
      await removeForgotten(cluster);
      if (recovered > 0) for (const volume of workload.moving) await registerAnew(volume);
    },
    async recover() {
      recovered += 1;
      const controllers = [cluster.controller(), cluster.second.process()];
      await Promise.all(controllers.map((each) => each.kill("SIGTERM")));
      const file = path.join(cluster.dir, `rebuilt-${recovered}.export`);
      await run(["rebuild", nodes.join(), file]);
      await run(["import", file]);
      await cluster.startController();
      await cluster.second.start();
    },
  };
};
