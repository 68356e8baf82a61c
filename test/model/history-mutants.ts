/** Faults of vettings, promises, admissions and fences. */
import type { ModelMutant } from "./planted-fault.ts";

const gate = "services/controller/src/gate/ask-nodes.ts";
const nodes = "services/controller/src/nodes";
const reconcile = "services/controller/src/reconcile/node";

export const historyMutants: readonly ModelMutant[] = [
  {
    name: "no node is asked for a promise",
    file: gate,
    find: "const promised = await agents.promise(node, vetting, signal);",
    put: "const promised = { vetting, openCalls: [] };",
    within: "commits that are lost",
  },
  {
    name: "a node promises after it has told what it holds",
    file: gate,
    find: "const promised = await agents.promise(node, vetting, signal);",
    put: "const before = await agents.inventory(node, signal); const promised = await agents.promise(node, vetting, signal);",
    also: [
      { file: gate, find: "const inventory = await agents.inventory(node, signal);", put: "const inventory = before;" },
    ],
    within: "commits that are lost",
  },
  {
    name: "an agent follows orders of any vetting",
    file: "services/node-agent/src/domain/promise.ts",
    find: 'if (verdict === "same" || verdict === "newer") return undefined;',
    put: 'if (verdict !== "other") return undefined;',
    within: "commits that are lost",
  },
  {
    name: "what a controller heard before a vetting counts after it",
    file: `${reconcile}/inventory.ts`,
    find: 'return now.open && judgeVetting(vetting, now.vetting) === "same";',
    put: "return now.open;",
    within: "inventories of the past",
  },
  {
    name: "one generation is promised to two vettings",
    file: "packages/model/src/vetting.ts",
    find: 'return sender.uid === promised.uid || sender.uid === "" || promised.uid === "" ? "same" : "other";',
    put: 'return "same";',
    within: "two histories of one number",
  },
  {
    name: "a controller knows the nodes that its store has, and no others",
    file: `${nodes}/node-registry.ts`,
    find: "for (const name of [...known.keys()].filter((one) => !found.has(one))) await learnOf(name);",
    put: "for (const name of [...known.keys()].filter((one) => !found.has(one))) drop(name);",
    // A node that is kept beside the store is missed by its name.
    also: [
      {
        file: "services/controller/src/gate/node-roster.ts",
        find: "const lost = [...known].filter(",
        put: "const lost = [...now].filter(",
      },
    ],
    within: "a newcomer that is lost",
  },
  {
    name: "the epoch of a node is used again after its fence",
    file: "services/controller/src/domain/node/fence.ts",
    find: "nodeEpoch: record.nodeEpoch + 1,",
    put: "nodeEpoch: record.nodeEpoch,",
    // Another boot raises it as well.
    also: [{ file: `${nodes}/admit-node.ts`, find: "another ? last + 1 :", put: "another ? Math.max(1, last) :" }],
    within: "a machine that is off",
  },
  {
    name: "a node in quarantine is in use again before it is clean",
    file: `${reconcile}/fence-keeper.ts`,
    find: "if (first !== undefined)\n    return `its agent",
    put: "if (first !== undefined && orphans.length > 0)\n    return `its agent",
    within: "a machine that is off",
  },
  {
    name: "a copy of a host is taken for the host",
    file: "services/controller/src/domain/node/node-life.ts",
    find: "(known.lockId ?? now.lockId) === now.lockId",
    put: "known.journalUid === now.journalUid",
    also: [
      {
        file: "services/controller/src/domain/node/node-life.ts",
        find: "hasTheMemory(known, now) && known.bootId === now.bootId",
        put: "hasTheMemory(known, now)",
      },
    ],
    within: "a copied host",
  },
  {
    name: "a host takes back what its copy has told",
    file: "services/controller/src/domain/attachment/foreign-hold.ts",
    find: "node === teller.name && (toldBy === undefined || hasOutlived(teller, toldBy));",
    put: "node === teller.name;",
    within: "a copy that was taken for its host",
    mostStates: 3_000_000,
  },
];
