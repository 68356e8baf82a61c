/**
 * Every reason for which something is blocked, and the test that provokes it, does what its block prints, and sees it cleared. Total: a
 * new reason of blocked.ts, snapshot-blocked.ts or the agent's answer-types.ts does not compile here until somebody has walked its cure,
 * and a file that blocks something else is found.
 */
import path from "node:path";
import type { BlockedReason } from "@holdfast/controller/domain/blocked";
import type { CutBlockedReason } from "@holdfast/controller/domain/snapshot/snapshot-blocked";
import type { AgentBlockReason } from "@holdfast/node-agent/domain/answer-types";
import { expect, test } from "vitest";
import { listFiles, readText } from "./support/architecture-source.ts";

const root = path.resolve(import.meta.dirname, "..");

const cureWalk = "test/controller/cure-walk.test.ts";
const cutWalk = "test/controller/cut-cure-walk.test.ts";
const agentCures = "test/e2e/agent-cures.e2e.test.ts";
const deadFiles = "test/node/dead-filesystem.test.ts";

const volumes: Readonly<Record<BlockedReason | "CREATE_UNCERTAIN", string>> = {
  CREATE_UNCERTAIN: cureWalk,
  INCOMPATIBLE: cureWalk,
  NOT_AT_BACKEND: cureWalk,
  FOREIGN_ATTACHMENT: cureWalk,
  ATTACHED_ELSEWHERE: cureWalk,
  STORAGE_TAKEN: cureWalk,
  DETACH_UNPROVEN: cureWalk,
  CREDENTIALS_REFUSED: cureWalk,
  PLUGIN_REFUSED: cureWalk,
  PERMIT_REFUSED: cureWalk,
  NODE_REPLACED: cureWalk,
  NODE_SILENT: cureWalk,
  // What is printed is read from ListStuck, and run.
  NODE_PENDING: "test/harness/admit-waiting.ts",
  FOREIGN_HOLD: cureWalk,
  PLUGIN_HANGS: cureWalk,
  CALL_MAY_BE_OPEN: cureWalk,
  CALL_BARRED: cureWalk,
  EXPAND_IN_USE: cureWalk,
  EXPAND_UNCERTAIN: cureWalk,
  MODIFY_UNCERTAIN: cureWalk,
  PLUGIN_AMBIGUOUS: cureWalk,
  PLACE_UNKNOWN: cureWalk,
  NOT_PROVEN: cureWalk,
};

const cuts: Readonly<Record<CutBlockedReason, string>> = {
  INCOMPATIBLE: cutWalk,
  CREDENTIALS_REFUSED: cutWalk,
  PLUGIN_REFUSED: cutWalk,
  CREATE_UNCERTAIN: cutWalk,
  BACKEND_GROUP: cutWalk,
  PLUGIN_AMBIGUOUS: cutWalk,
  PLACE_UNKNOWN: cutWalk,
  PLUGIN_HANGS: cutWalk,
  CALL_MAY_BE_OPEN: cutWalk,
};

const agents: Readonly<Record<AgentBlockReason, string>> = {
  NOT_AT_BACKEND: agentCures,
  INCOMPATIBLE: agentCures,
  CREDENTIALS_REFUSED: agentCures,
  PLUGIN_REFUSED: agentCures,
  MOUNT_HUNG: deadFiles,
  MOUNT_DEAD: deadFiles,
  MOUNT_NOT_SEEN: agentCures,
  MOUNT_HELD: "test/e2e/lingering.e2e.test.ts",
  STILL_MOUNTED: agentCures,
  ORPHAN_MOUNT: agentCures,
  HOST_PATH_UNSAFE: agentCures,
  PERMIT_CHANGED: agentCures,
  JOURNAL_DAMAGED: agentCures,
};

/** Of nodes and instances: the file that makes the block, and each of its reasons. */
const others: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "services/controller/src/domain/node/fence-block.ts": { NODE_FENCED: "test/e2e/fence.e2e.test.ts" },
  "services/controller/src/domain/node/pending-life.ts": { NODE_PENDING: "test/harness/admit-waiting.ts" },
  "services/controller/src/domain/node/dispute.ts": { CLUSTER_MISMATCH: "test/e2e/other-installation.e2e.test.ts" },
  "services/node-agent/src/plugins/fingerprint.ts": {
    PLUGIN_IMPOSTOR: "test/e2e/security-b-plugin-impostor.e2e.test.ts",
  },
};

/** Told, and walked by no test: the cure is outside of what a test host has, or nobody has done it yet. */
const notWalked = {
  NODE_CONFLICT: "services/controller/src/domain/node/dispute.ts",
  RECORD_DAMAGED: "services/controller/src/commands/repair/list-stuck.ts",
  DRAIN_OVERDUE: "services/controller/src/api/node/convert-node.ts",
  PLUGIN_IDENTITY_CHANGED: "services/node-agent/src/plugins/fingerprint.ts",
} as const;

const rows = [volumes, cuts, agents, ...Object.values(others)].flatMap((table) => Object.entries(table));

test("the cure of every reason is walked by the test that is named, as far as it is not said here that it is not", () => {
  const lacking = rows.filter(([reason, file]) => !new RegExp(`\\b${reason}\\b`).test(readText(root, file)));
  expect(lacking).toEqual([]);
  const tables = [volumes, cuts, agents].map((table) => Object.keys(table).length);
  const all = rows.length + Object.keys(notWalked).length;
  console.log(
    `cures walked: ${tables.map((n) => `${n} of ${n}`).join(", ")} of volumes, snapshots and agents; ${rows.length} of ${all} with those of nodes, records and instances; not walked: ${Object.keys(notWalked).join(", ")}`,
  );
});

test("every file that says what clears a block is known here", () => {
  const sayers = ["services/controller/src", "services/node-agent/src"]
    .flatMap((folder) => listFiles(root, folder, /\.ts$/))
    .filter((file) => !/\.test\.ts$|\/gen\/|\/testing\//.test(file))
    .filter((file) => /\bmissingProof: (?:["`(]|\n)/.test(readText(root, file)));
  expect(sayers.toSorted()).toEqual(
    [
      ...Object.keys(others),
      ...Object.values(notWalked),
      "services/controller/src/domain/blocked.ts",
      "services/controller/src/domain/snapshot/snapshot-blocked.ts",
      "services/node-agent/src/volumes/halts.ts",
      "services/node-agent/src/volumes/volume-drive.ts",
    ]
      .filter((file, at, every) => every.indexOf(file) === at)
      .toSorted(),
  );
});
