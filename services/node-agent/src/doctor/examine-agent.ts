/** `main.ts check`: what would keep an agent with these settings from its work. Changes nothing, and may run beside it. */
import { examineAudit } from "@holdfast/shared/doctor/examine-audit";
import { examineCertificates } from "@holdfast/shared/doctor/examine-certificates";
import { examineListeners } from "@holdfast/shared/doctor/examine-listeners";
import { examineSockets } from "@holdfast/shared/doctor/examine-sockets";
import { examineStateDir } from "@holdfast/shared/doctor/examine-state-dir";
import { type Finding, fine, warning } from "@holdfast/shared/doctor/finding";
import type { AgentConfig } from "../config.ts";
import { readHostIdentity } from "../host-identity.ts";
import { readHostProof } from "../host-proof.ts";
import { type AskController, examineControllers } from "./examine-controllers.ts";
import { examineHost } from "./examine-host.ts";
import { examineJournal } from "./examine-journal.ts";
import { examineLinks } from "./examine-links.ts";

export interface AgentExamination {
  readonly config: Pick<
    AgentConfig,
    | "node"
    | "machineIdFile"
    | "hostIdentity"
    | "stateDir"
    | "journalMinFreeBytes"
    | "rootDir"
    | "pluginDir"
    | "controllers"
    | "auditDir"
    | "tlsDir"
    | "adminListen"
    | "insecure"
  >;
  readonly ask: AskController;
  /** The clock of this host. */
  readonly now: () => number;
  readonly searchPath: string;
}

const examineProof = async (setting: string | undefined): Promise<Finding> => {
  const { identity, from } = await readHostProof(setting);
  if (identity !== "") return fine("host-identity", from, "tells a boot of this host from a clone of it");
  return warning(
    "host-identity",
    from,
    "a boot of this host cannot be told from a clone: while claims stand here it waits for a person",
    "name what no copy of this host has in HOLDFAST_HOST_IDENTITY, such as the instance id of the cloud (exec:)",
  );
};

export const examineAgent = async ({ config, ask, now, searchPath }: AgentExamination): Promise<readonly Finding[]> => {
  const { machineId } = await readHostIdentity(config.machineIdFile, undefined);
  const wanted = `node/${config.node}`;
  return [
    ...examineListeners({ plain: [config.adminListen], insecure: config.insecure }),
    ...examineLinks(config),
    ...examineCertificates({ at: config.tlsDir, setting: "HOLDFAST_TLS_DIR", wanted, now: now() }),
    ...(await examineStateDir(config.stateDir, "HOLDFAST_STATE_DIR")),
    ...(await examineJournal(config.stateDir, machineId, config.journalMinFreeBytes)),
    ...(await examineAudit(config)),
    await examineProof(config.hostIdentity),
    ...(await examineHost({ proc: "/proc", searchPath }, config.rootDir)),
    ...(await examineSockets(config.pluginDir, "HOLDFAST_PLUGIN_DIR")),
    ...(await examineControllers(config.controllers, ask, now)),
  ];
};
