/** A part of the composition root: the directory of this controller, first of all, and under which name its traces leave. */
import type { Lifecycle } from "@holdfast/shared/lifecycle";
import type { Logger } from "@holdfast/shared/log/logger";
import { telemetryPart } from "@holdfast/shared/telemetry";
import type { ControllerConfig } from "./config.ts";
import type { Ids } from "./ports.ts";
import { openStateDir, type StateDir } from "./state-dir.ts";

export interface StateParts {
  readonly config: ControllerConfig;
  readonly version: string;
  readonly lifecycle: Pick<Lifecycle, "start">;
  readonly ids: Ids;
  readonly log: Logger;
}

export const wireState = async ({ config, version, lifecycle, ids, log }: StateParts): Promise<StateDir> => {
  let own: StateDir | undefined;
  await lifecycle.start("state directory", async () => {
    own = await openStateDir(config.stateDir, { id: config.id, uuid: ids.uuid });
    return own.release;
  });
  if (own === undefined) throw new Error("the state directory is not open");
  const service = { service: "holdfast-controller", version, instance: own.issuer, log };
  await lifecycle.start("telemetry", telemetryPart(config, service));
  return own;
};
