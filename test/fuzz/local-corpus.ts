/** Sound requests of the services that an agent has for programs on its host. */
import { type LocalServices, localDefinitions } from "../../services/node-agent/src/api/local-services.ts";
import { type RowsOf, samplesOf } from "./samples.ts";

const name = { namespace: "default", workload: "w1" };
const waitFor = { seconds: 1n, nanos: 0 };
const capability = {
  ...({ attachmentMode: 1, accessMode: 6 } as const),
  ...{ fsType: "ext4", mountFlags: ["noatime"], volumeMountGroup: "" },
};
const claim = { volume: "data", alias: "d", capability, readOnly: false };
const mount = { container: "web", containerPath: "/data", readOnly: true, propagation: 1 } as const;
const plugin = "csi.example.com";
const instance = { plugin, allocation: "a1" };
const template = { plugin, capacity: { requiredBytes: 1n << 20n, limitBytes: 0n } };

const rows: RowsOf<LocalServices> = {
  workloads: {
    prepareWorkload: {
      stored: [
        { ...name, volumes: [{ claim, mounts: [mount] }], replaces: ["w0"], requestId: "r-1", waitFor },
        { ...name, volumes: [{ claim: { alias: "d", capability, template } }] },
      ],
    },
    releaseWorkload: { stored: [{ ...name, waitFor }] },
    getWorkload: { asked: [name] },
    getWorkloadStats: { asked: [name] },
    watchWorkloads: { asked: [{ ...name, resumeToken: "run-1.1" }] },
  },
  pluginHost: {
    preparePlugin: {
      stored: [
        { ...instance, role: 2, socketDir: "/csi", publishDir: "/local/csi", healthTimeout: waitFor },
        { ...instance, role: 3, hostFilesystem: true, restartInUse: true },
      ],
    },
    supervisePlugin: { asked: [instance] },
    stopPlugin: { stored: [{ ...instance, waitFor, leaveVolumes: true }] },
    acceptPlugin: { asked: [{ plugin, socket: "/run/csi.sock", reason: "it was moved" }] },
    listInstances: { asked: [{ plugin, pageSize: 10, pageToken: "" }] },
    watchInstances: { asked: [{ plugin, resumeToken: "run-1.1" }] },
  },
};

export const localSamples = samplesOf(localDefinitions, rows);
