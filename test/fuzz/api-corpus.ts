/** Sound requests of the API of the controller. */
import { type ControllerServices, controllerDefinitions } from "@holdfast/controller/api/controller-services";
import { generateKey, makeRequest } from "@holdfast/shared/trust/make-certificate";
import { type RowsOf, samplesOf } from "./samples.ts";

const namespace = "default";
const ref = { namespace, id: "data" };
const page = { pageSize: 10, pageToken: "" };
const plugin = "csi.example";
const capability = {
  ...({ attachmentMode: 1, accessMode: 6 } as const),
  ...{ fsType: "ext4", mountFlags: ["noatime"], volumeMountGroup: "" },
};
const waitFor = { seconds: 1n, nanos: 0 };
const volume = {
  ...{ ...ref, plugin, capabilities: [capability], parameters: { tier: "fast" }, labels: { team: "a" } },
  ...{ capacity: { requiredBytes: 1n << 20n, limitBytes: 1n << 30n }, requestId: "r-1" },
  policy: { reclaim: 1, nodeLoss: 1 } as const,
};
const operator = { reason: "it is lost", dryRun: true, requestId: "r-2" };
const word = { reason: "as agreed" };
const evidence = "seen";
const claim = { volume: "data", alias: "d", capability, readOnly: false };
const cut = { namespace, id: "cut", volume: "data", labels: { team: "a" }, parameters: { tier: "cold" } };
const group = { namespace, id: "both", members: [{ snapshot: "one", volume: "data" }], labels: { team: "a" } };
const window = { startingOffset: 0n, maxResults: 10 };
const request = await makeRequest(generateKey());

const rows: RowsOf<ControllerServices> = {
  volumes: {
    createVolume: {
      stored: [
        { ...volume, topology: { required: [{ segments: { zone: "z1" } }] } },
        { ...volume, id: "copy", contentSource: { volume: "data" }, waitFor },
        { ...volume, id: "safe", inlineSecrets: { token: "t" } },
      ],
    },
    registerVolume: { stored: [{ ...volume, id: "old", externalId: "disk-1", context: { path: "/x" } }] },
    updateVolume: { stored: [{ ...ref, labels: { labels: { a: "b" } }, reason: "r" }] },
    expandVolume: { stored: [{ ...ref, capacity: { requiredBytes: 1n << 21n, limitBytes: 0n }, requestId: "r" }] },
    modifyVolume: { stored: [{ ...ref, mutableParameters: { iops: "1" } }] },
    deleteVolume: { asked: [ref] },
    deregisterVolume: { asked: [{ ...ref, requestId: "r-9" }] },
    getVolume: { asked: [ref] },
    explainVolume: { asked: [ref] },
    listVolumes: { asked: [{ filter: { namespace }, ...page }] },
    watchVolumes: { asked: [{ filter: { namespace } }] },
    listExternalVolumes: { asked: [{ plugin, ...page }] },
    getCapacity: { asked: [{ plugin, capabilities: [capability], parameters: {} }] },
    getVolumeStats: { asked: [{ ...ref, node: "n1" }] },
  },
  claims: {
    createClaims: {
      stored: [
        { namespace, workload: "w1", node: "n1", claims: [claim], requestId: "r-3" },
        { namespace, workload: "w2", node: "n2", claims: [claim], queue: { deadline: waitFor } },
      ],
    },
    waitClaims: { asked: [{ namespace, workload: "w1", aliases: ["d"], goal: 1 }] },
    releaseClaims: { asked: [{ namespace, workload: "w1", aliases: ["d"] }] },
    handOver: { asked: [{ namespace, fromWorkload: "w1", toWorkload: "w3", toNode: "n2", deadline: waitFor }] },
    getListToken: { asked: [{}] },
    reconcileWorkloads: { asked: [{ listToken: "t", node: "n1", namespace, live: [{ namespace, workload: "w1" }] }] },
    getClaim: { asked: [{ namespace, volume: "data", workload: "w1", alias: "d" }] },
    listClaims: { asked: [{ filter: { namespace, workload: "w1", node: "n1" }, ...page }] },
    watchClaims: { asked: [{ filter: { namespace, workload: "w1" } }] },
  },
  nodes: {
    getNode: { asked: [{ name: "n1" }] },
    listNodes: { asked: [page] },
    watchNodes: { asked: [{ filter: { states: [1], plugin } }] },
    getNodeStats: { asked: [{ name: "n1", ...page }] },
    drainNode: { asked: [{ name: "n1", reason: "r", mode: 1, deadline: waitFor }] },
    watchDrain: { asked: [{ name: "n1" }] },
    undrainNode: { asked: [{ name: "n1" }] },
    fenceNode: {
      asked: [{ name: "n2", powerOffAttestation: "it is off", reason: "r", expectedNodeEpoch: 1n, dryRun: true }],
    },
    forgetNode: { asked: [{ name: "n2", reason: "r" }] },
  },
  plugins: {
    setPluginProfile: {
      stored: [{ name: plugin, profile: { maxConcurrentCalls: 4, maxVolumesPerNode: 8n }, reason: "r" }],
    },
    getPlugin: { asked: [{ name: plugin }] },
    listPlugins: { asked: [page] },
    watchPlugins: { asked: [{}] },
    acceptPlugin: { asked: [{ plugin, socket: "/run/csi.sock", reason: "r" }] },
    deletePlugin: { asked: [{ name: plugin, reason: "r" }] },
  },
  repair: {
    scanOrphans: { asked: [{ ...operator, nodes: ["n1"], plugins: [plugin], kinds: [1, 2], clean: [2] }] },
    abandonClaim: {
      asked: [{ ...operator, namespace, volume: "data", workload: "w1", alias: "d", claimUid: "k-1", evidence }],
    },
    assertDetached: { asked: [{ ...operator, namespace, volume: "data", node: "n1", evidence }] },
    removeOrphan: { asked: [{ ...operator, orphanId: "o-1", evidence, namespace }] },
    adoptVolume: {
      asked: [{ ...operator, namespace, volume: "found", plugin, externalId: "disk-2", capabilities: [capability] }],
    },
    forgetVolume: { asked: [{ ...operator, namespace, volume: "data", uid: "u-1" }] },
    takeOver: { asked: [{ ...operator, namespace, volume: "data", evidence }] },
    clearBar: { asked: [{ ...operator, namespace, snapshot: "cut", evidence, bar: "b-1" }] },
    admitNode: { asked: [{ ...operator, node: "n1", life: "l-1", evidence }] },
    forgetController: { asked: [{ ...operator, controller: "c9", evidence }] },
    vet: { asked: [{ accept: true, reason: "r", dryRun: true }] },
    getUpgrade: { asked: [{}] },
    finishUpgrade: { asked: [operator] },
    listAudit: { asked: [{ namespace, verb: "SetQuota", ...page }] },
    listStuck: { asked: [{ namespace, plugin, node: "n1", ...page }] },
  },
  snapshots: {
    createSnapshot: {
      stored: [
        { ...cut, requestId: "r-6" },
        { ...cut, id: "late", waitFor, waitUntilReady: true, topology: [{ segments: { zone: "z1" } }] },
      ],
    },
    createSnapshotGroup: { stored: [{ ...group, requestId: "r-7" }] },
    deleteSnapshot: { asked: [{ namespace, id: "cut", requestId: "r-8", waitFor }] },
    deleteSnapshotGroup: { asked: [{ namespace, id: "both" }] },
    getSnapshot: { asked: [{ namespace, id: "cut" }] },
    getSnapshotGroup: { asked: [{ namespace, id: "both" }] },
    listSnapshots: {
      asked: [{ filter: { namespace, volume: "data", states: [1, 3], labels: { team: "a" } }, ...page }],
    },
    listSnapshotGroups: { asked: [{ filter: { namespace, plugin }, ...page }] },
    listExternalSnapshots: { asked: [{ plugin, externalVolumeId: "disk-1", namespace, ...page }] },
    restoreSnapshotGroup: {
      asked: [{ namespace, group: "both", members: [{ source: "one", id: "back", capabilities: [capability] }] }],
    },
    getMetadataAllocated: { asked: [{ namespace, snapshot: "cut", ...window }] },
    getMetadataDelta: { asked: [{ namespace, baseSnapshot: "cut", targetSnapshot: "late", ...window }] },
  },
  placement: {
    checkPlacement: { asked: [{ namespace, workload: "w9", claims: [claim], nodes: ["n1"], ...page }] },
  },
  secrets: {
    putSecret: { stored: [{ namespace, name: "array", values: { token: "t" }, requestId: "r-4" }] },
    deleteSecret: { asked: [{ namespace, name: "array", version: 1n }] },
    listSecrets: { asked: [{ namespace, ...page }] },
  },
  quotas: {
    setQuota: {
      stored: [
        { ...word, requestId: "r-10", namespace: "walled", limits: { volumes: 5n, bytes: 1n << 40n, snapshots: 9n } },
      ],
    },
    getQuota: { asked: [{ namespace: "walled" }] },
    listQuotas: { asked: [page] },
    deleteQuota: { asked: [{ ...word, requestId: "r-11", namespace: "walled" }] },
  },
  grants: {
    setGrant: {
      stored: [
        {
          ...word,
          requestId: "r-12",
          scheduler: "s1",
          namespaces: [namespace, "walled"],
          plugins: [plugin],
          secretRoots: ["file:array"],
        },
      ],
    },
    getGrant: { asked: [{ scheduler: "s1" }] },
    listGrants: { asked: [page] },
    deleteGrant: { asked: [{ ...word, requestId: "r-13", scheduler: "s1" }] },
  },
  events: {
    watchEvents: { asked: [{ filter: { namespace, volume: "data", minimumSeverity: 1 } }] },
  },
  trust: {
    createNodeToken: { stored: [{ node: "n3", ttl: { seconds: 60n, nanos: 0 } }] },
    enrol: { asked: [{ token: "0".repeat(32), node: "n3", request }] },
    renew: { asked: [{ request }] },
    revoke: { stored: [{ ...word, requestId: "r-14", subject: "scheduler/s9" }] },
    listRevoked: { asked: [page] },
  },
};

export const apiSamples = samplesOf(controllerDefinitions, rows);
