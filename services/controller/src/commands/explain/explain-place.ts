/** What to ask of a driver that makes volumes only for a place that it is told. */
import { volumeCommand } from "../../domain/operator-command.ts";
import type { Segments, VolumeRecord } from "../../domain/volume/volume.ts";
import type { CommandDeps } from "../command-deps.ts";

const shown = 5;

const specOf = (segments: Segments): string =>
  `{ segments: { ${Object.entries(segments)
    .map(([key, value]) => `${JSON.stringify(key)}: ${JSON.stringify(value)}`)
    .join(", ")} } }`;

/**
 * Only of a volume that was refused, of which nobody said where it shall be, and whose plugin tells places of nodes. What the driver said
 * is its own words, so that this is no more than a likely cure.
 */
export const placeActions = (volume: VolumeRecord, { nodes }: Pick<CommandDeps, "nodes">): readonly string[] => {
  const { required, preferred } = volume.topology;
  if (volume.state !== "FAILED" || volume.externalId !== "" || volume.name === "" || volume.binding !== undefined)
    return [];
  if (required.length > 0 || preferred.length > 0) return [];
  const places = new Map<string, string>();
  for (const { record } of nodes.list())
    for (const { name, topology } of record.plugins)
      if (name === volume.plugin && Object.keys(topology).length > 0 && places.size < shown)
        places.set(specOf(topology), record.name);
  if (places.size === 0) return [];
  const all = [...places].map(([spec, node]) => `${spec} of node ${node}`).join(", ");
  return [
    `when the plugin's message asks for a place: ${volumeCommand("volume delete", volume)}, then create it with topology.preferred, one of ${all}`,
  ];
};
