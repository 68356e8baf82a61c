import { serviceProgram } from "../support/service-program.ts";
import { type ManagedProcess, type ProcessSpec, startProcess } from "./managed-process.ts";

export interface LocalDriverSpec {
  readonly sockets: readonly string[];
  readonly stateDir: string;
  readonly nodeId: string;
  readonly mountsOf?: number;
  readonly rightsOf?: ProcessSpec["rightsOf"];
  readonly env?: Readonly<Record<string, string>>;
}

/** The driver as a process of its own, once it serves. */
export const startLocalDriver = async (spec: LocalDriverSpec): Promise<ManagedProcess> => {
  const driver = startProcess({
    name: `local-driver ${spec.nodeId}`,
    command: [process.execPath, serviceProgram("local-driver")],
    ...(spec.mountsOf === undefined ? {} : { mountsOf: spec.mountsOf }),
    ...(spec.rightsOf === undefined ? {} : { rightsOf: spec.rightsOf }),
    env: {
      HOLDFAST_LOCAL_SOCKET: spec.sockets.join(","),
      HOLDFAST_LOCAL_STATE_DIR: spec.stateDir,
      HOLDFAST_LOCAL_NODE_ID: spec.nodeId,
      ...spec.env,
    },
  });
  await driver.line((line) => line["message"] === "ready", "its line `ready`");
  return driver;
};
