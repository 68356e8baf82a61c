/** Every command there is. Help, completion, docs/cli.md and the tests are made from this table. */
import type { Group } from "../frame/command.ts";
import { type CommandSource, loadCommands } from "../frame/command-source.ts";

export const groups: readonly Group[] = [
  { name: "volume", summary: "make, look at, change and end volumes" },
  { name: "claim", summary: "give workloads their volumes, and take them back" },
  { name: "snapshot", summary: "cut volumes at a point in time" },
  { name: "node", summary: "look at hosts, and take them out of use" },
  { name: "plugin", summary: "look at CSI drivers, and say what is known about them" },
  { name: "placement", summary: "ask where volumes could be used" },
  { name: "secret", summary: "keep values for plugins" },
  { name: "quota", summary: "bound what namespaces may have" },
  { name: "grant", summary: "say what schedulers may use" },
  { name: "ca", summary: "make, issue, renew and revoke certificates" },
  { name: "agent", summary: "give this host a certificate" },
  { name: "repair", summary: "find what is stuck or leaked, and override a proof that cannot be had" },
  { name: "audit", summary: "see who did what, and check that it is all there" },
  { name: "import", summary: "take over what other programs have" },
  { name: "upgrade", summary: "end an upgrade of the controllers" },
];

const subjects: readonly CommandSource[] = [
  {
    group: "volume",
    words: ["create", "register"],
    load: async () => {
      const { createVolume, registerVolume } = await import("./volume/make-volume.ts");
      return [createVolume, registerVolume];
    },
  },
  {
    group: "volume",
    words: ["init"],
    load: async () => [(await import("./volume/init-volume.ts")).initVolume],
  },
  {
    group: "volume",
    words: ["apply"],
    load: async () => [(await import("./volume/apply-volume.ts")).applyVolume],
  },
  {
    group: "volume",
    words: ["list"],
    load: async () => [(await import("./volume/list-volumes.ts")).listVolumes],
  },
  {
    group: "volume",
    words: ["status", "explain", "stats"],
    load: async () => {
      const { statusVolume, explainVolume, statsVolume } = await import("./volume/show-volume.ts");
      return [statusVolume, explainVolume, statsVolume];
    },
  },
  {
    group: "volume",
    words: ["expand", "modify", "label"],
    load: async () => {
      const { expandVolume, modifyVolume, labelVolume } = await import("./volume/change-volume.ts");
      return [expandVolume, modifyVolume, labelVolume];
    },
  },
  {
    group: "volume",
    words: ["detach"],
    load: async () => [(await import("./volume/detach-volume.ts")).detachVolume],
  },
  {
    group: "volume",
    words: ["delete", "deregister"],
    load: async () => {
      const { deleteVolume, deregisterVolume } = await import("./volume/end-volume.ts");
      return [deleteVolume, deregisterVolume];
    },
  },
  {
    group: "claim",
    words: ["create", "release", "hand-over", "list", "status"],
    load: async () => {
      const { createClaims, releaseClaims, handOverClaims, listClaims, statusClaim } = await import(
        "./claim/claim-commands.ts"
      );
      return [createClaims, releaseClaims, handOverClaims, listClaims, statusClaim];
    },
  },
  {
    group: "claim",
    words: ["list-token", "reconcile"],
    load: async () => {
      const { listTokenForReconcile, reconcileClaims } = await import("./claim/reconcile-commands.ts");
      return [listTokenForReconcile, reconcileClaims];
    },
  },
  {
    group: "snapshot",
    words: ["create", "list", "status", "delete"],
    load: async () => {
      const { createSnapshot, listSnapshots, statusSnapshot, deleteSnapshot } = await import(
        "./snapshot/snapshot-commands.ts"
      );
      return [createSnapshot, listSnapshots, statusSnapshot, deleteSnapshot];
    },
  },
  {
    group: "snapshot",
    words: ["create-group", "list-groups", "group-status", "delete-group"],
    load: async () => {
      const { createGroup, listGroups, statusGroup, deleteGroup } = await import("./snapshot/group-commands.ts");
      return [createGroup, listGroups, statusGroup, deleteGroup];
    },
  },
  {
    group: "snapshot",
    words: ["restore-group"],
    load: async () => [(await import("./snapshot/restore-group.ts")).restoreGroup],
  },
  {
    group: "node",
    words: ["list", "status", "stats"],
    load: async () => {
      const { listNodes, statusNode, statsNode } = await import("./node/node-commands.ts");
      return [listNodes, statusNode, statsNode];
    },
  },
  {
    group: "node",
    words: ["admit"],
    load: async () => [(await import("./node/admit-node.ts")).admitNode],
  },
  {
    group: "node",
    words: ["drain", "undrain"],
    load: async () => {
      const { drainNode, undrainNode } = await import("./node/node-commands.ts");
      return [drainNode, undrainNode];
    },
  },
  {
    group: "node",
    words: ["fence"],
    load: async () => [(await import("./node/fence-node.ts")).fenceNode],
  },
  {
    group: "node",
    words: ["forget"],
    load: async () => [(await import("./node/node-commands.ts")).forgetNode],
  },
  {
    group: "plugin",
    words: ["list", "status", "profile", "accept", "delete"],
    load: async () => {
      const { listPlugins, statusPlugin, profilePlugin, acceptPlugin, deletePlugin } = await import(
        "./plugin/plugin-commands.ts"
      );
      return [listPlugins, statusPlugin, profilePlugin, acceptPlugin, deletePlugin];
    },
  },
  {
    group: "plugin",
    words: ["list-volumes", "list-snapshots", "capacity"],
    load: async () => {
      const { listBackendVolumes, listBackendSnapshots, backendCapacity } = await import(
        "./plugin/backend-commands.ts"
      );
      return [listBackendVolumes, listBackendSnapshots, backendCapacity];
    },
  },
  {
    group: "placement",
    words: ["check"],
    load: async () => [(await import("./check-placement.ts")).checkPlacement],
  },
  {
    group: "secret",
    words: ["put", "list", "delete"],
    load: async () => {
      const { putSecret, listSecrets, deleteSecret } = await import("./secret-commands.ts");
      return [putSecret, listSecrets, deleteSecret];
    },
  },
  {
    group: "quota",
    words: ["set", "status", "list", "delete"],
    load: async () => (await import("./quota-commands.ts")).quotaCommands,
  },
  {
    group: "grant",
    words: ["set", "show", "list", "delete"],
    load: async () => (await import("./grant-commands.ts")).grantCommands,
  },
  {
    group: "ca",
    words: ["init", "issue", "renew"],
    load: async () => (await import("./trust/ca-commands.ts")).caCommands,
  },
  { group: "node", words: ["token"], load: async () => (await import("./trust/enrol-commands.ts")).enrolCommands },
  { group: "agent", words: ["enrol"], load: async () => (await import("./trust/enrol-commands.ts")).enrolCommands },
  {
    group: "ca",
    words: ["revoke", "revoked"],
    load: async () => (await import("./trust/enrol-commands.ts")).enrolCommands,
  },
  {
    group: "repair",
    words: ["scan", "stuck"],
    load: async () => (await import("./repair/report-commands.ts")).reportCommands,
  },
  {
    group: "repair",
    words: [
      "remove-orphan",
      "adopt",
      "abandon-claim",
      "assert-detached",
      "take-over",
      "clear-bar",
      "forget-volume",
      "forget-controller",
      "vet",
    ],
    load: async () => (await import("./repair/override-commands.ts")).overrideCommands,
  },
  {
    group: "audit",
    words: ["list", "follow", "verify"],
    load: async () => (await import("./audit/audit-commands.ts")).auditCommands,
  },
  {
    group: "upgrade",
    words: ["status", "finish"],
    load: async () => (await import("./upgrade-commands.ts")).upgradeCommands,
  },
  {
    group: "import",
    words: ["nomad"],
    load: async () => [(await import("./import/import-nomad.ts")).importNomad],
  },
  {
    group: undefined,
    words: ["events"],
    load: async () => [(await import("./watch-events.ts")).watchEvents],
  },
  {
    group: undefined,
    words: ["call"],
    load: async () => [(await import("./call-method.ts")).callMethod],
  },
  {
    group: undefined,
    words: ["top"],
    load: async () => [(await import("./show-top.ts")).showTop],
  },
  {
    group: undefined,
    words: ["doctor"],
    load: async () => [(await import("./run-doctor.ts")).runDoctor],
  },
  {
    group: undefined,
    words: ["export", "import", "migrate", "rebuild"],
    load: async () => (await import("./backup-commands.ts")).backupCommands,
  },
];

export const commandSources: readonly CommandSource[] = [
  ...subjects,
  {
    group: undefined,
    words: ["completion", "complete-line"],
    load: async () =>
      (await import("../completion/completion-commands.ts")).completionCommands(await loadCommands(subjects)),
  },
];
