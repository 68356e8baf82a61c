/** `main.ts check`: what would keep an agent with these settings from its work. Changes nothing, and may run beside it. */
import { examineSockets } from "@holdfast/shared/doctor/examine-sockets";
import { examineStateDir } from "@holdfast/shared/doctor/examine-state-dir";
import type { Finding } from "@holdfast/shared/doctor/finding";
import type { AgentConfig } from "../config.ts";
import { readHostIdentity } from "../host-identity.ts";
import { type AskController, examineControllers } from "./examine-controllers.ts";
import { examineHost } from "./examine-host.ts";
import { examineJournal } from "./examine-journal.ts";

export interface AgentExamination {
  readonly config: Pick<AgentConfig, "node" | "machineIdFile" | "stateDir" | "rootDir" | "pluginDir" | "controllers">;
  readonly ask: AskController;
  /** The clock of this host. */
  readonly now: () => number;
  readonly searchPath: string;
}

export const examineAgent = async ({ config, ask, now, searchPath }: AgentExamination): Promise<readonly Finding[]> => {
  const { machineId } = await readHostIdentity(config.machineIdFile, undefined);
  return [
    ...(await examineStateDir(config.stateDir, "HOLDFAST_STATE_DIR")),
    ...(await examineJournal(config.stateDir, machineId)),
    ...(await examineHost({ proc: "/proc", searchPath }, config.rootDir)),
    ...(await examineSockets(config.pluginDir, "HOLDFAST_PLUGIN_DIR")),
    ...(await examineControllers(config.controllers, ask, now)),
  ];
};
