/**
 * The rules of the product as the moves of the model ask them: each question is answered once by the product's code and remembered.
 *
 * A rule that takes turns of the event loop is not known when it is asked first (NotYetKnown).
 */
import { planSteps, type Step } from "../../../services/controller/src/domain/steps.ts";
import { NotYetKnown } from "../search/search.ts";
import { type Handled, handleOrder, type StageFate } from "./agent-rules.ts";
import { controllerRun, type RunInput, type RunOutput } from "./controller-run.ts";
import { type Passage, passGate, quietGate } from "./gate-rules.ts";
import type { AgentOrder, Gate, GateWord, Host, SentCall } from "./model-types.ts";
import { type PlainRecord, recordFor, wholeRecord } from "./plain-record.ts";
import { createSharedValues } from "./shared-values.ts";

/** No wait of the product is longer: a failed attempt is tried again at once. */
const hurry = 0;

export const createProductRules = () => {
  const { one, idOf } = createSharedValues();
  const plans = new WeakMap<PlainRecord, readonly Step[]>();
  const runs = new Map<string, RunOutput>();
  const passages = new Map<string, Passage>();
  const quiets = new Map<string, GateWord>();

  const asked = <T>(known: Map<string, T>, key: string, work: () => Promise<T>): T => {
    const found = known.get(key);
    if (found !== undefined) return found;
    throw new NotYetKnown(work().then((answer) => known.set(key, answer)));
  };
  /** Of rules that answer at once. */
  const worked = new Map<string, object>();
  const once = <T extends object>(key: string, work: () => T): T => {
    const known = worked.get(key);
    if (known !== undefined) return known as T;
    const found = one(work());
    worked.set(key, found);
    return found;
  };
  const handled = (host: Host, order: AgentOrder, attached: boolean, fate: StageFate): Handled =>
    once(`agent|${idOf(host)}|${idOf(order)}|${attached}|${fate}`, () => {
      const { host: after, answer } = handleOrder(host, order, attached, fate);
      return { host: one(after), answer };
    });
  const forStep = (record: PlainRecord, step: Step): PlainRecord =>
    once(`for|${idOf(record)}|${idOf(step)}`, () => recordFor(record, step));
  const planOf = (record: PlainRecord): readonly Step[] => {
    if (record.gone) return [];
    const known = plans.get(record);
    if (known !== undefined) return known;
    const steps = planSteps(wholeRecord(record), hurry, true).ready.map((step) => one(step));
    plans.set(record, steps);
    return steps;
  };
  const sharedOutput = ({ stored, order, left, past, quiets, ...rest }: RunOutput): RunOutput => ({
    ...rest,
    ...(past === undefined ? {} : { past: one({ record: one(past.record), order: one(past.order) }) }),
    ...(quiets === undefined ? {} : { quiets: one({ ...quiets, order: one(quiets.order) }) }),
    ...(stored === undefined ? {} : { stored: one(stored) }),
    ...(order === undefined ? {} : { order: one(order) }),
    ...(left === undefined ? {} : { left: one({ ...left, order: one(left.order) }) }),
  });
  const run = (input: RunInput): RunOutput => {
    const { issuer, step, planned, stored, order, unstored, seat, patient, until } = input;
    const orderId = order === undefined ? "" : idOf(order);
    const { seen = stored, known = planned, past, lives, drives = true } = input;
    const ids = `${idOf(step)}|${idOf(planned)}|${idOf(stored)}|${idOf(seen)}|${idOf(known)}|${past === undefined ? "" : idOf(past)}|${orderId}`;
    const gatesKnown = `${seat?.gate ?? seat?.via}|${[...lives.values()].map(({ gate }) => gate).join()}|${lives.size}`;
    const key = `${issuer}|${ids}|${unstored ?? ""}|${gatesKnown}|${patient}|${drives}|${until}`;
    return asked(runs, key, async () => sharedOutput(await controllerRun(input)));
  };
  const memoryKey = ({ calls, raised, life }: Gate): string => `${life}|${idOf(calls)}|${idOf(raised)}`;
  const passage = (gate: Gate, call: SentCall): Passage =>
    asked(passages, `${memoryKey(gate)}|${idOf(call)}`, () => passGate(gate, call));
  const quieted = (gate: Gate, ask: NonNullable<RunOutput["quiets"]>): GateWord =>
    asked(quiets, `${memoryKey(gate)}|${idOf(ask)}`, () => quietGate(gate, ask));

  return { one, idOf, once, handled, forStep, planOf, run, passage, quieted };
};

export type ProductRules = ReturnType<typeof createProductRules>;
