/** A person who finds a volume blocked, reads Explain, and does what it says. */
import { openCsiClients } from "../local-driver/csi-clients.ts";
import { commandsIn, runAsTold } from "./as-told.ts";
import type { Cluster } from "./cluster.ts";
import type { HostPathProcess } from "./host-path-process.ts";
import { namespace } from "./scenario.ts";

export interface Cure {
  readonly said: string;
  /** What was done; empty when nothing was blocked, or nothing was said that could be done. */
  readonly done: string;
}

/** The driver keeps no tool for it: its own call deletes what it has under the volume's name. */
const removedAtBackend = async (cluster: Cluster, driver: HostPathProcess, id: string): Promise<string> => {
  const { volume } = await cluster.volumes.getVolume({ namespace, id });
  const found = ((await driver.state()).Volumes ?? []).find(({ VolName }) => VolName === volume?.name);
  if (found === undefined) return "";
  const csi = openCsiClients(driver.socket);
  await csi.controller.deleteVolume({ volumeId: found.VolID, secrets: {} }).finally(() => csi.close());
  return `removed ${found.VolID} at the backend`;
};

export const cureAsTold = async (cluster: Cluster, driver: HostPathProcess, id: string): Promise<Cure> => {
  const { findings, nextActions } = await cluster.volumes.explainVolume({ namespace, id });
  const { stuck } = await cluster.repair.listStuck({ namespace });
  const said = [
    ...findings,
    ...nextActions.map((one) => `> ${one}`),
    ...stuck.map((one) => `${one.volume}${one.snapshot}${one.snapshotGroup}: ${one.blocked?.message}`),
  ].join("; ");
  if (!said.includes("is blocked (")) return { said, done: "" };
  if (nextActions.some((one) => one.startsWith("remove or rename it at the backend")))
    return { said, done: await removedAtBackend(cluster, driver, id) };
  const ran: string[] = [];
  for (const line of commandsIn(nextActions)) ran.push(await runAsTold(cluster, line));
  return { said, done: ran.join("; ") };
};
