/** The RPCs that csi-driver-host-path announces, each of which has to stand in its log after a run. */
import type { Capability } from "@holdfast/csi/capabilities";
import { type CsiMethod, methodNames, methods } from "@holdfast/csi/methods";
import { type Ask, readPluginFacts } from "@holdfast/csi/plugin-facts";
import { openCsiClients } from "../local-driver/csi-clients.ts";
import type { HostPathFigures } from "./host-path-run.ts";

/** Why there is no line of it. */
const notInLog: Partial<Readonly<Record<CsiMethod, string>>> = {
  GetSnapshot: "Holdfast has no use for it: a repeat of CreateSnapshot tells whether the snapshot is ready",
  GetVolumeGroupSnapshot:
    "Holdfast has no use for it: a repeat of CreateVolumeGroupSnapshot tells whether the group is ready",
  GetMetadataAllocated: "the driver logs no stream; the life of a block volume compares its answer",
  GetMetadataDelta: "the driver logs no stream; the life of a block volume compares its answer",
};

const announcedAt = async (socket: string): Promise<readonly CsiMethod[]> => {
  const { identity, controller, group, node, close } = openCsiClients(socket);
  const calls: Readonly<Partial<Record<CsiMethod, () => Promise<unknown>>>> = {
    GetPluginInfo: () => identity.getPluginInfo({}),
    GetPluginCapabilities: () => identity.getPluginCapabilities({}),
    ControllerGetCapabilities: () => controller.controllerGetCapabilities({}),
    GroupControllerGetCapabilities: () => group.groupControllerGetCapabilities({}),
    NodeGetCapabilities: () => node.nodeGetCapabilities({}),
    NodeGetInfo: () => node.nodeGetInfo({}),
  };
  const ask = async (method: CsiMethod) => ({ outcome: "done", value: await calls[method]?.() });
  const read = await readPluginFacts("monolith", ask as Ask).finally(close);
  if (!("facts" in read)) throw new Error(`the driver at ${socket} does not say what it can do`);
  const { facts } = read;
  const has = new Set<Capability | "none">(["none"]);
  for (const service of ["plugin", "controller", "node", "group"] as const)
    for (const [capability, standing] of Object.entries(facts[service]))
      if (standing === "yes") has.add(`${service}:${capability}` as Capability);
  return methodNames.filter((method) => has.has(methods[method].needs));
};

export interface ServedFigures {
  readonly announced: number;
  readonly seen: readonly string[];
  readonly notInLog: readonly string[];
  /** Announced, and never called. */
  readonly missing: readonly string[];
}

export const servedIn = async (socket: string, { calls }: Pick<HostPathFigures, "calls">): Promise<ServedFigures> => {
  const announced = await announcedAt(socket);
  const seen = announced.filter((method) => calls[method] !== undefined);
  const unseen = announced.filter((method) => calls[method] === undefined);
  return {
    announced: announced.length,
    seen: seen.map((method) => `${method} ${calls[method]}`),
    notInLog: unseen.flatMap((method) => (notInLog[method] === undefined ? [] : [`${method}: ${notInLog[method]}`])),
    missing: unseen.filter((method) => notInLog[method] === undefined),
  };
};
