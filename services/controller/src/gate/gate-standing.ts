/** How the gate stands, and what keeps it shut: told on, and logged, whenever it changes. */
import { noVetting } from "@holdfast/model/vetting";
import { createEmitter } from "@holdfast/shared/async/emitter";
import type { Logger } from "@holdfast/shared/log/logger";
import type { StoreGate } from "../ports.ts";
import type { Finding } from "./finding.ts";

type Standing = ReturnType<StoreGate["state"]>;

export interface GateStanding {
  now(): Standing;
  findings(): readonly Finding[];
  onChange: StoreGate["onChange"];
  become(next: Standing, findings?: readonly Finding[]): void;
  /** The first finding is the reason. */
  shut(findings: readonly Finding[]): void;
}

const sameWords = (one: readonly Finding[], other: readonly Finding[]): boolean =>
  one.length === other.length && one.every(({ message }, i) => message === other[i]?.message);

const vet = "holdfast repair vet names it";

/** The reason is told with claims of every namespace: it names no volume. */
const reasonFrom = ({ kind, node, namespace, message }: Finding): string => {
  if (kind === "HOLD" && namespace !== "") return `node ${node} holds a volume that the store knows otherwise; ${vet}`;
  if (kind === "CALL") return `a plugin may have a call open that the store does not know; ${vet}`;
  return message;
};

export const createGateStanding = (log: Pick<Logger, "info" | "warn">): GateStanding => {
  const listeners = createEmitter();
  let standing: Standing = { open: false, vetting: noVetting, reason: "the store was not looked at yet" };
  let found: readonly Finding[] = [];

  const become = (next: Standing, findings: readonly Finding[] = []): void => {
    const { open, reason, vetting } = standing;
    const same = next.vetting.gen === vetting.gen && next.vetting.uid === vetting.uid;
    const changed = next.open !== open || next.reason !== reason || !same || !sameWords(findings, found);
    standing = same ? { ...next, vetting } : next;
    found = findings;
    if (!changed) return;
    if (next.open) log.info("the store may grant", { gen: next.vetting.gen, vetting: next.vetting.uid });
    else log.warn("the store grants nothing", { reason: next.reason, finding: findings[0]?.message ?? "" });
    listeners.tell();
  };

  return {
    now: () => standing,
    findings: () => found,
    onChange: listeners.on,
    become,
    shut(findings) {
      const [first] = findings;
      const more = findings.length > 1 ? ` (and ${findings.length - 1} more)` : "";
      const why = first === undefined ? "unknown" : reasonFrom(first);
      become({ open: false, vetting: standing.vetting, reason: `${why}${more}` }, findings);
    },
  };
};
