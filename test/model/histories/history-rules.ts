/** The rules of the product as the histories ask them: each question is answered once by the product's code and remembered. */
import type { Vetting } from "@holdfast/model/vetting";
import type { Inventory } from "../../../services/controller/src/domain/claim/permit.ts";
import { planSteps, type Step } from "../../../services/controller/src/domain/steps.ts";
import { NotYetKnown } from "../search/search.ts";
import { type Handled, handleOrder } from "../volume/agent-rules.ts";
import type { Host as Mounts } from "../volume/model-types.ts";
import { type PlainRecord, wholeRecord } from "../volume/plain-record.ts";
import { createSharedValues } from "../volume/shared-values.ts";
import { type CompareInput, type CompareOutput, compareRun, noteRun } from "./compare-run.ts";
import { type comparedAs, type GateInput, type GateOutput, gateRun } from "./gate-run.ts";
import type { Host, Order, PlainNode, StoredVolume } from "./history-types.ts";
import { inventoryOf } from "./inventory-of.ts";
import { type StepInput, type StepOutput, stepRun } from "./step-run.ts";

/** No wait of the product is longer: a failed attempt is tried again at once. */
const hurry = 0;

export const createHistoryRules = () => {
  const { one, idOf } = createSharedValues();
  const worked = new Map<string, unknown>();
  const once = <T>(key: string, work: () => T): T => {
    const known = worked.get(key);
    if (known !== undefined) return known as T;
    const found = work();
    worked.set(key, found);
    return found;
  };
  const asked = <T>(key: string, work: () => Promise<T>): T => {
    const known = worked.get(key);
    if (known !== undefined) return known as T;
    throw new NotYetKnown(work().then((answer) => worked.set(key, answer)));
  };
  const wordsOf = ({ gen, uid }: Vetting): string => `${gen}.${uid}`;

  return {
    one,
    idOf,
    once,
    asked,
    planOf: (record: PlainRecord): readonly Step[] =>
      once(`plan|${idOf(record)}`, () => planSteps(wholeRecord(record), hurry, true).ready),
    gate: (input: GateInput, key: string): GateOutput =>
      asked(`gate|${key}|${idOf(input.knows)}|${input.generation}|${idOf(input.names)}|${wordsOf(input.vetting)}`, () =>
        gateRun(input),
      ),
    compared: (node: PlainNode, inventory: Inventory, stored: StoredVolume, run: () => ReturnType<typeof comparedAs>) =>
      asked(`compared|${idOf(node)}|${idOf(inventory)}|${idOf(stored)}`, run),
    noted: (node: PlainNode, inventory: Inventory, stored: StoredVolume): StoredVolume =>
      asked(`noted|${idOf(node)}|${idOf(inventory)}|${idOf(stored)}`, () => noteRun(node, inventory, stored)),
    step: (key: string, input: StepInput): StepOutput => asked(`step|${key}`, () => stepRun(input)),
    compare: (key: string, input: CompareInput): CompareOutput => asked(`compare|${key}`, () => compareRun(input)),
    inventory: (host: Host): Inventory => once(`inventory|${idOf(host)}`, () => inventoryOf(host)),
    /** What an order does that the agent judges under what it has promised. */
    handled: (host: Host, promised: Vetting, order: Order): Handled =>
      once(`agent|${idOf(host)}|${wordsOf(promised)}|${idOf(order)}`, () => {
        const { volume, mounted, nodeEpoch, quarantined = false } = host;
        const mounts: Mounts = volume === undefined ? { mounted } : { volume, mounted };
        const { vetting: sender, forEpoch } = order;
        return handleOrder(mounts, order, true, "done", { nodeEpoch, promised, quarantined, sender, forEpoch });
      }),
  };
};

export type HistoryRules = ReturnType<typeof createHistoryRules>;
