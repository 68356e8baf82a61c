/** Faults of the product that the search has to find. */
import { barMutants } from "./bar-mutants.ts";
import { historyMutants } from "./history-mutants.ts";
import type { ModelMutant } from "./planted-fault.ts";

const domain = "services/controller/src/domain";
const owed = "services/controller/src/reconcile/owed";
const agent = "services/node-agent/src/domain";
const csi = "packages/csi/src";

const callMutants: readonly ModelMutant[] = [
  {
    name: "a call leaves by what the controller remembers, not by what the store has",
    file: `${owed}/under-intent.ts`,
    find: "const stored = await records.read(planned);",
    put: "const stored = await records.known(planned);",
    within: "relays in short",
  },
  {
    name: "a repeat of a call that may be open has the order of the call before",
    file: `${owed}/under-intent.ts`,
    find: 'if (end === "open") records.orders.forget(key);',
    put: "",
    within: "kills",
    mostStates: 1_500_000,
  },
  {
    name: "a call without an answer counts as ended",
    file: `${domain}/open-call.ts`,
    find: '(outcome.failure.call ?? "open")',
    put: '(outcome.failure.call ?? "ended")',
    within: "relays in short",
  },
  {
    name: "orders are not compared",
    file: `${csi}/order-gate.ts`,
    find: "if (isAbove(highest, order) || highest.opId",
    put: "if (highest.opId",
    within: "kills",
  },
  {
    name: "a gate lets every order pass",
    file: `${csi}/order-gate.ts`,
    find: "is known for the same subject`); // G3, G6",
    put: "is known for the same subject`) && mayRun;",
    within: "kills",
  },
  {
    name: "a call runs again after its final answer",
    file: `${csi}/open-calls.ts`,
    find: "answer && finalOf(method, answer)",
    put: "answer && undefined",
    within: "copies",
  },
  {
    name: "a refused attach is taken for certain although an attempt before is in doubt",
    file: `${domain}/obligation/obligation.ts`,
    find: 'refused: row("failed", "undo", "again"),',
    put: 'refused: row("failed", "failed", "again"),',
    within: "failures",
  },
  {
    name: "an attach without a certain answer counts as refused",
    file: `${domain}/obligation/obligation.ts`,
    find: 'refused: row("failed", "undo", "again"),',
    put: 'refused: row("failed", "undo", "again"), unknown: row("failed", "failed", "again"),',
    within: "failures",
  },
  {
    name: "a detach counts as done whatever the plugin answered",
    file: `${domain}/attachment/attach-change.ts`,
    find: 'if (outcome.kind === "done") return detached(volume, node, at);',
    put: "return detached(volume, node, at);",
    within: "failures",
  },
  {
    name: "an attach that may be open is not brought to its end before its detach",
    file: `${domain}/steps.ts`,
    find: '(intent?.op === "attach" ? "finish" : "detach")',
    put: '(intent?.op === "create" ? "finish" : "detach")',
    within: "relays in short",
  },
  {
    name: "a volume that is mounted is detached as soon as its release is wanted",
    file: `${domain}/claim/claim-machine.ts`,
    find: '    publication_lost: "stay",\n    release_wanted: "RELEASING",',
    put: '    publication_lost: "stay",\n    release_wanted: "leave",',
    within: "relays in short",
  },
  {
    name: "a claim that was offered is detached without the word of the agent",
    file: `${domain}/claim/claim-machine.ts`,
    find: '    permit_refused: "RELEASING",\n    publish_unknown: "stay",\n    release_wanted: "RELEASING",',
    put: '    permit_refused: "RELEASING",\n    publish_unknown: "stay",\n    release_wanted: "leave",',
    within: "relays in short",
  },
  {
    name: "a grant does not look at other claims",
    file: `${domain}/claim/grant.ts`,
    find: "if (first !== undefined)\n    return obstacle(",
    put: "if (first !== undefined && blocking.length === 0)\n    return obstacle(",
    within: "two claims",
  },
  {
    name: "an attach is granted without its intent",
    file: `${domain}/claim/grant.ts`,
    find: "...(attaches ? { intent",
    put: "...(!attaches ? { intent",
    within: "relays in short",
  },
  {
    name: "a claim whose permit may have left is given up without its agent",
    file: `${domain}/attachment/attach-change.ts`,
    find: "if (mayBeAhead(claim)) return recalled(volume, uid, undefined, at);",
    put: "",
    within: "relays in short",
  },
  {
    name: "an attach is undone beside a permit that may have left",
    file: `${domain}/attachment/attach-change.ts`,
    find: "if (mayBeAhead(claim)) return recalled(v, claim.uid, failure, at);",
    put: "",
    within: "sockets in short",
  },
  {
    name: "an attempt after one whose answer was not stored keeps the permit back",
    file: "services/controller/src/reconcile/steps/lead-permit.ts",
    find: "if (unstored) return (found, decide) => decide(leftPerhaps(found, opId));",
    put: "",
    within: "relays in short",
  },
  {
    name: "a permit that has left is kept back",
    file: "services/controller/src/reconcile/steps/lead-permit.ts",
    find: "const change = decide(found);",
    put: "const change = decide(keptBack(found, opId, vetting));",
    within: "relays in short",
  },
  {
    name: "a released epoch may be mounted again",
    file: `${agent}/judge-order.ts`,
    find: "const dead = deadAt(volume, epoch);\n  if (dead !== undefined) {",
    put: "const dead = deadAt(volume, epoch);\n  if (dead !== undefined && dead.late) {",
    within: "late orders",
  },
  {
    name: "a release of a permit that never came is not remembered",
    file: `${agent}/volume-machine.ts`,
    find: "return { ...known, dead: withDead(known, { claimUid: event.claimUid, epoch: event.epoch, late: event.late }) };",
    put: "return known;",
    within: "late orders",
  },
  {
    name: "a released claim leaves no dead epoch behind",
    file: `${agent}/volume-machine.ts`,
    find: "return { ...volume, claims, dead, stage };",
    put: "return { ...volume, claims, stage };",
    within: "late orders",
  },
  {
    name: "a call is right whatever the step says of the record in the store",
    file: `${owed}/under-intent.ts`,
    find: "ours && stillRight(stored)) {",
    put: "ours) {",
    within: "relays in short",
  },
  {
    name: "the detach of a pair takes the place of its open attach",
    file: `${domain}/claim/claim-step.ts`,
    find: "(volume.intent.node === attachment.node && !mayBeOpen(volume))",
    put: "volume.intent.node === attachment.node",
    within: "relays in short",
  },
];

export const modelMutants: readonly ModelMutant[] = [...callMutants, ...barMutants, ...historyMutants];
