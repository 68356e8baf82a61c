/** Faults of takeovers and bars, and of what gates say. */
import type { ModelMutant } from "./planted-fault.ts";

const domain = "services/controller/src/domain";
const owed = "services/controller/src/reconcile/owed";
const csi = "packages/csi/src";
const relay = "services/node-agent/src/plugins/relay.ts";

export const barMutants: readonly ModelMutant[] = [
  {
    name: "a gate makes calls that are for another life of it",
    file: relay,
    find: "if (gate !== undefined && gate !== life) return otherLife(gate, life); // L1",
    put: "",
    within: "gates that end",
  },
  {
    name: "a bar is lifted although its gate has a call open",
    file: `${owed}/lift-bar.ts`,
    find: '(await settle(answer.kind === "idle" ? undefined : notOver(answer)))',
    put: "(await settle(undefined))",
    within: "a claim behind a bar",
  },
  {
    name: "the bar of an attach goes while its pair is detached",
    file: `${domain}/bar.ts`,
    find: 'if (pair?.state === "DETACHING") return noChange(volume);',
    put: "",
    within: "overtaking at sockets",
    mostStates: 1_500_000,
  },
  {
    name: "the bar of an attach goes before the undo is owed",
    file: `${domain}/bar.ts`,
    find: "return told({ ...lifted, attachments: { ...volume.attachments, [node]: late } });",
    put: "return told(lifted);",
    within: "a claim behind a bar",
  },
  {
    name: "a call of a life before the gate's is asked of its next life",
    file: `${domain}/open-call.ts`,
    find: "sameLife ? open : { ...open, beyondGate: true }",
    put: "open",
    within: "overtaking at sockets",
  },
  {
    name: "a gate is idle although a call is open there",
    file: `${csi}/open-calls.ts`,
    find: "if (standing !== undefined) return { idle: false,",
    put: "if (standing === undefined && order.gen < 0) return { idle: false,",
    within: "a claim behind a bar",
  },
  {
    name: "an overtaken call leaves no bar",
    file: `${domain}/bar.ts`,
    find: "bars: [...record.bars, bar],",
    put: "bars: record.bars,",
    // The commit itself refuses to drop a call without a bar.
    also: [{ file: `${domain}/open-call.ts`, find: "via !== intent.via;\n};", put: "opId === undefined;\n};" }],
    within: "overtaking at sockets",
  },
  {
    name: "a grant does not look at bars",
    file: `${domain}/claim/grant.ts`,
    find: "const bar = grantBar(volume, { node: claim.node, nodeId: facts.nodeId });",
    put: "const bar = undefined;",
    within: "a claim behind a bar",
  },
  {
    name: "a gate is asked to let go without a commit before",
    file: `${owed}/lift-bar.ts`,
    find: "const quiesced = async (): Promise<GateAnswer | undefined> => {\n    const asked = await ask();",
    put: "const quiesced = async () => {\n    const asked = { record: planned, bar: known, order: { gen: 1, sequence: -1 } };",
    // An answer counts for a stored question alone.
    also: [{ file: `${owed}/lift-bar.ts`, find: "barOf(r)?.asked?.opId === question", put: "question !== undefined" }],
    within: "overtaking",
  },
  {
    name: "a controller goes on with a call of another one without a commit",
    file: `${owed}/run-owed.ts`,
    find: "const now = await own((r, at) => records.overtaken(r, opId, turn.seat, at));",
    put: "const now = { ...record, intent: { ...record.intent, ...turn.seat } };",
    within: "overtaking at sockets",
  },
  {
    name: "another life of a gate answers for the one that had the call",
    file: relay,
    find: "if (gate !== life)\n        throw",
    put: "if (gate === undefined)\n        throw",
    within: "overtaking of gates that end",
  },
  {
    name: "the next life of a controller is asked for the calls of the one before",
    file: `${owed}/lift-bar.ts`,
    find: "if (bar.issuer === issuer && bar.beyondGate === undefined) return",
    put: "if ((bar.issuer === issuer || isFormerLife(bar.issuer)) && bar.beyondGate === undefined) return",
    within: "overtaking at sockets",
  },
  {
    name: "an answer of another gate ends the call of the one before",
    file: `${domain}/claim/claim-step.ts`,
    find: "const { intent: _done, ...rest } = volume;\n  return rest;",
    put: "const { intent: _done, ...rest } = volume;\n  return { ...rest, bars: [] };",
    within: "overtaking at sockets",
  },
  {
    name: "a grant does not look at detaches that no claim waits for",
    file: `${domain}/claim/grant.ts`,
    find: "const unowned = besideUnowned(volume, claim);",
    put: "const unowned = undefined as Attachment | undefined;",
    within: "a claim behind a bar",
  },
  {
    name: "the answer to an earlier question lifts a bar",
    file: `${owed}/lift-bar.ts`,
    find: "barOf(r)?.asked?.opId === question",
    put: "question !== undefined",
    within: "a bar whose gate has come back",
  },
  {
    name: "a record goes with its storage, and its bar with it",
    file: `${domain}/volume/volume-change.ts`,
    find: "if (bars.length > 0) return told({ ...plain(volume), attempts: noAttempts, updatedAt: at.now });",
    put: "",
    within: "creating and overtaking",
  },
  {
    name: "a call that is given to nobody leaves no bar",
    file: `${domain}/bar.ts`,
    find: "bars: [...record.bars, bar],",
    put: "bars: seat === undefined ? record.bars : [...record.bars, bar],",
    also: [{ file: `${domain}/open-call.ts`, find: "via !== intent.via;\n};", put: "opId === undefined;\n};" }],
    within: "shares of a detach",
  },
];
