import { DriverError } from "../domain/driver-error.ts";
import type { DriverSettings, NodeOperations } from "../operations.ts";
import type { Host } from "../ports.ts";
import { expandNode } from "./expand-node.ts";
import { storageHealth, volumeHealth } from "./health.ts";
import type { NodeParts } from "./node-parts.ts";
import { publish } from "./publish.ts";
import { recover } from "./recover.ts";
import { stage } from "./stage.ts";
import { stats } from "./stats.ts";
import { unpublish } from "./unpublish.ts";
import { unstage } from "./unstage.ts";

export function createNodeOperations(given: {
  readonly host: Host;
  readonly settings: DriverSettings;
  readonly undoMs?: number;
}): NodeOperations {
  const parts: NodeParts = { undoMs: 30_000, ...given };
  const named = <I extends { readonly volumeId: string }, T>(
    act: (parts: NodeParts, input: I, signal: AbortSignal) => Promise<T>,
  ): ((input: I, signal: AbortSignal) => Promise<T>) => {
    return async (input, signal) => {
      try {
        return await act(parts, input, signal);
      } catch (error) {
        throw withVolume(parts, input.volumeId, error);
      }
    };
  };
  return {
    stage: named(stage),
    unstage: named(unstage),
    publish: named(publish),
    unpublish: named(unpublish),
    stats: named(stats),
    volumeHealth: named(volumeHealth),
    storageHealth: () => storageHealth(parts),
    expand: named(expandNode),
    recover: (signal) => recover(parts, signal),
  };
}

/** What the host says of a device or a path does not say whose it is. */
function withVolume({ host, settings }: NodeParts, id: string, error: unknown): unknown {
  const start = `volume ${id}`;
  if (!(error instanceof DriverError) || error.message.startsWith(start)) return error;
  const name = host.state.volumes.all().find((record) => record.id === id)?.name;
  const named = `${start}${name === undefined ? "" : ` (${name})`} on node ${settings.nodeId}`;
  return new DriverError(error.code, `${named}: ${error.message}`, { cause: error });
}
