/** Services with certificates, each a process of its own in directories below one. */
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { machineIdFile } from "@holdfast/node-agent/testing/machine-id-file";
import { type Service, serviceProgram } from "../support/service-program.ts";
import { type ManagedProcess, startProcess } from "./managed-process.ts";

type Settings = Readonly<Record<string, string>>;

const serviceAt = (service: Service, name: string, env: Settings): ManagedProcess =>
  startProcess({ name, command: [process.execPath, serviceProgram(service)], env });

const ready = (one: ManagedProcess) => one.line(({ message }) => message === "ready", "its line `ready`");

export interface TrustedController {
  readonly process: ManagedProcess;
  /** For schedulers, and for agents. */
  readonly address: string;
  readonly agents: string;
}

/** `started` has it before it is ready, to end it whatever comes of it. */
type Started = (one: ManagedProcess) => void;

/** With the certificate in `DIR/NAME/tls` and the authority in `DIR/ca/issuing`. */
export const startTrustedController = async (
  dir: string,
  name: string,
  started: Started,
  env: Settings = {},
): Promise<TrustedController> => {
  await mkdir(path.join(dir, name, "p"), { recursive: true, mode: 0o700 });
  const one = serviceAt("controller", name, {
    HOLDFAST_LISTEN: "127.0.0.1:0",
    HOLDFAST_AGENT_LISTEN: "127.0.0.1:0",
    HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
    HOLDFAST_STATE_DIR: path.join(dir, name, "s"),
    HOLDFAST_PLUGIN_DIR: path.join(dir, name, "p"),
    HOLDFAST_TLS_DIR: path.join(dir, name, "tls"),
    HOLDFAST_CA_DIR: path.join(dir, "ca/issuing"),
    ...env,
  });
  started(one);
  const { address, agents } = await ready(one);
  return { process: one, address: String(address), agents: String(agents) };
};

/** With the certificate in `DIR/NAME/tls`. */
export const startTrustedAgent = async (
  dir: string,
  name: string,
  started: Started,
  env: Settings,
): Promise<ManagedProcess> => {
  for (const place of ["m", "p"]) await mkdir(path.join(dir, name, place), { recursive: true, mode: 0o700 });
  const one = serviceAt("node-agent", name, {
    HOLDFAST_NODE: name,
    HOLDFAST_TLS_DIR: path.join(dir, name, "tls"),
    HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
    HOLDFAST_STATE_DIR: path.join(dir, name, "s"),
    HOLDFAST_ROOT_DIR: path.join(dir, name, "m"),
    HOLDFAST_PLUGIN_DIR: path.join(dir, name, "p"),
    HOLDFAST_HOSTED_PLUGIN_DIR: path.join(dir, name, "h"),
    HOLDFAST_MACHINE_ID_FILE: machineIdFile(),
    HOLDFAST_HOST_IDENTITY: "none",
    ...env,
  });
  started(one);
  await ready(one);
  return one;
};
