/** Every command there is. Help, completion, docs/cli.md and the tests are made from this table. */
import { completionCommands } from "../completion/completion-commands.ts";
import type { Command, Group } from "../frame/command.ts";
import { auditCommands } from "./audit/audit-commands.ts";
import { backupCommands } from "./backup-commands.ts";
import { checkPlacement } from "./check-placement.ts";
import { createClaims, handOverClaims, listClaims, releaseClaims, statusClaim } from "./claim/claim-commands.ts";
import { listTokenForReconcile, reconcileClaims } from "./claim/reconcile-commands.ts";
import { grantCommands } from "./grant-commands.ts";
import { admitNode } from "./node/admit-node.ts";
import { fenceNode } from "./node/fence-node.ts";
import { drainNode, forgetNode, listNodes, statsNode, statusNode, undrainNode } from "./node/node-commands.ts";
import { backendCapacity, listBackendSnapshots, listBackendVolumes } from "./plugin/backend-commands.ts";
import { acceptPlugin, deletePlugin, listPlugins, profilePlugin, statusPlugin } from "./plugin/plugin-commands.ts";
import { quotaCommands } from "./quota-commands.ts";
import { overrideCommands } from "./repair/override-commands.ts";
import { reportCommands } from "./repair/report-commands.ts";
import { runDoctor } from "./run-doctor.ts";
import { deleteSecret, listSecrets, putSecret } from "./secret-commands.ts";
import { createGroup, deleteGroup, listGroups, statusGroup } from "./snapshot/group-commands.ts";
import { restoreGroup } from "./snapshot/restore-group.ts";
import { createSnapshot, deleteSnapshot, listSnapshots, statusSnapshot } from "./snapshot/snapshot-commands.ts";
import { caCommands } from "./trust/ca-commands.ts";
import { enrolCommands } from "./trust/enrol-commands.ts";
import { upgradeCommands } from "./upgrade-commands.ts";
import { expandVolume, labelVolume, modifyVolume } from "./volume/change-volume.ts";
import { detachVolume } from "./volume/detach-volume.ts";
import { deleteVolume, deregisterVolume } from "./volume/end-volume.ts";
import { listVolumes } from "./volume/list-volumes.ts";
import { createVolume, registerVolume } from "./volume/make-volume.ts";
import { explainVolume, statsVolume, statusVolume } from "./volume/show-volume.ts";
import { watchEvents } from "./watch-events.ts";

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
  { name: "upgrade", summary: "end an upgrade of the controllers" },
];

const subjects: readonly Command[] = [
  createVolume,
  registerVolume,
  listVolumes,
  statusVolume,
  explainVolume,
  statsVolume,
  expandVolume,
  modifyVolume,
  labelVolume,
  detachVolume,
  deleteVolume,
  deregisterVolume,
  createClaims,
  releaseClaims,
  handOverClaims,
  listClaims,
  statusClaim,
  listTokenForReconcile,
  reconcileClaims,
  createSnapshot,
  listSnapshots,
  statusSnapshot,
  deleteSnapshot,
  createGroup,
  listGroups,
  statusGroup,
  deleteGroup,
  restoreGroup,
  listNodes,
  statusNode,
  statsNode,
  admitNode,
  drainNode,
  undrainNode,
  fenceNode,
  forgetNode,
  listPlugins,
  statusPlugin,
  profilePlugin,
  acceptPlugin,
  deletePlugin,
  listBackendVolumes,
  listBackendSnapshots,
  backendCapacity,
  checkPlacement,
  putSecret,
  listSecrets,
  deleteSecret,
  ...quotaCommands,
  ...grantCommands,
  ...caCommands,
  ...enrolCommands,
  ...reportCommands,
  ...overrideCommands,
  ...auditCommands,
  ...upgradeCommands,
  watchEvents,
  runDoctor,
  ...backupCommands,
];

export const commands: readonly Command[] = [...subjects, ...completionCommands(subjects)];
