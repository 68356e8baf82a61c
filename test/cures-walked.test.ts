/**
 * Every reason for which something is blocked, and the test that provokes it, does what its block prints, and sees it cleared. Total: the
 * reasons are read from the files that block, and a file that blocks something and is not known here is found.
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
const nodeWalk = "test/controller/node-cure-walk.test.ts";
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
  NODE_PENDING: nodeWalk,
  FOREIGN_HOLD: cureWalk,
  PLUGIN_HANGS: cureWalk,
  CALL_MAY_BE_OPEN: cureWalk,
  CALL_BARRED: cureWalk,
  EXPAND_IN_USE: cureWalk,
  EXPAND_UNCERTAIN: cureWalk,
  MODIFY_UNCERTAIN: cureWalk,
  PLUGIN_AMBIGUOUS: cureWalk,
  PLACE_UNKNOWN: cureWalk,
  TOKENS_UNSIGNED: cureWalk,
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
  REPUBLISH_FAILING: "test/e2e/identity-tokens.e2e.test.ts",
  JOURNAL_DAMAGED: agentCures,
};

/** Of nodes, records and instances: the file that makes the block, and each of its reasons. */
const others: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "services/controller/src/domain/node/fence-block.ts": { NODE_FENCED: nodeWalk },
  "services/controller/src/domain/node/pending-life.ts": { NODE_PENDING: nodeWalk },
  "services/controller/src/domain/node/dispute.ts": {
    NODE_CONFLICT: nodeWalk,
    CLUSTER_MISMATCH: "test/e2e/other-installation.e2e.test.ts",
  },
  "services/controller/src/commands/repair/list-stuck.ts": {
    RECORD_DAMAGED: "test/controller/record-cure-walk.test.ts",
  },
  "services/controller/src/api/node/convert-node.ts": { DRAIN_OVERDUE: nodeWalk },
  "services/node-agent/src/plugins/fingerprint.ts": {
    PLUGIN_IMPOSTOR: "test/e2e/security-b-plugin-impostor.e2e.test.ts",
    PLUGIN_IDENTITY_CHANGED: "test/controller/instance-cure-walk.test.ts",
  },
};

/** The reasons of volumes, snapshots and agents: the file and the type that has them all. */
const types = [
  { file: "services/controller/src/domain/blocked.ts", type: "BlockedReason", walked: volumes },
  { file: "services/controller/src/domain/snapshot/snapshot-blocked.ts", type: "CutBlockedReason", walked: cuts },
  { file: "services/node-agent/src/domain/answer-types.ts", type: "AgentBlockReason", walked: agents },
] as const;

const quoted = (text: string): readonly string[] =>
  [...text.matchAll(/"([A-Z][A-Z_]+)"/g)].map(([, word = ""]) => word);

const reasonsOfType = (text: string, type: string): readonly string[] =>
  quoted(new RegExp(`type ${type} =([^;]*);`).exec(text)?.[1] ?? "");

/** What a file gives as the reason of a block, as a value or as a type. */
const reasonsIn = (text: string): readonly string[] => [
  ...new Set([...text.matchAll(/\breason: ((?:"[A-Z_]+"(?: \| )?)+)/g)].flatMap(([, words = ""]) => quoted(words))),
];

/** Without a walk: in which file, and which. */
const unwalked = (read: (file: string) => string) => [
  ...types.flatMap(({ file, type, walked }) => {
    const reasons = reasonsOfType(read(file), type);
    expect(reasons.length, file).toBeGreaterThan(5);
    return reasons.filter((reason) => !(reason in walked)).map((reason) => `${file}: ${reason}`);
  }),
  ...Object.entries(others).flatMap(([file, walked]) => {
    const reasons = reasonsIn(read(file));
    expect(reasons.length, file).toBeGreaterThan(0);
    return reasons.filter((reason) => !(reason in walked)).map((reason) => `${file}: ${reason}`);
  }),
];

const rows = [volumes, cuts, agents, ...Object.values(others)].flatMap((table) => Object.entries(table));

test("the cure of every reason is walked by the test that is named", () => {
  const lacking = rows.filter(([reason, file]) => !new RegExp(`\\b${reason}\\b`).test(readText(root, file)));
  expect(lacking).toEqual([]);
  expect(unwalked((file) => readText(root, file))).toEqual([]);
  const counts = [volumes, cuts, agents].map((table) => Object.keys(table).length);
  console.log(
    `cures walked: ${counts.map((n) => `${n} of ${n}`).join(", ")} of volumes, snapshots and agents; ${rows.length} of ${rows.length} with those of nodes, records and instances`,
  );
});

test.each([
  ...types.map(({ file, type }) => [file, `type ${type} =`, `type ${type} =\n  | "NEW_REASON"`] as const),
  ...Object.keys(others).map((file) => [file, "", 'const block = { reason: "NEW_REASON" };\n'] as const),
])("a new reason of %s is found", (file, before, after) => {
  const read = (one: string) => {
    const text = readText(root, one);
    return one === file ? text.replace(before, after) : text;
  };
  expect(unwalked(read)).toEqual([`${file}: NEW_REASON`]);
});

test("every file that says what clears a block is known here", () => {
  const sayers = ["services/controller/src", "services/node-agent/src"]
    .flatMap((folder) => listFiles(root, folder, /\.ts$/))
    .filter((file) => !/\.test\.ts$|\/gen\/|\/testing\//.test(file))
    .filter((file) => /\bmissingProof: (?:["`(]|\n)/.test(readText(root, file)));
  expect(sayers.toSorted()).toEqual(
    [
      ...Object.keys(others),
      "services/controller/src/domain/blocked.ts",
      "services/controller/src/domain/snapshot/snapshot-blocked.ts",
      "services/node-agent/src/volumes/halts.ts",
      "services/node-agent/src/volumes/volume-drive.ts",
    ].toSorted(),
  );
});
