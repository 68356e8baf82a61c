/**
 * Which nodes this controller has the link of, and what their agents said of themselves last. It decides whether new claims are granted,
 * and nothing else.
 *
 * NL1 The link of a node is a registered stream of the process that its record names; streams of other processes count for nothing.
 * NL2 For one grace after its start a controller says of a node that it never heard that it does not know.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import {
  type Absence,
  type AbsenceKind,
  absenceFrom,
  absenceSeeing,
  isMarked,
  type LinkDecision,
  linkDecision,
} from "../domain/node/link-state.ts";
import type { NodeRecord } from "../domain/node/node.ts";

export type Live = "alive" | "suspect" | "unknown";

/** What an agent said of itself last. */
export interface AgentWord {
  readonly instance: string;
  /** Of the fingerprints that this controller has. */
  readonly revision: number;
  readonly accepting: boolean;
  readonly message: string;
}

/** When a link ended here, by the wall clock, for people. */
export interface LinkEnd {
  readonly at: number;
  readonly why: string;
}

export interface LinkStep {
  readonly node: string;
  readonly step: "doubt" | "lose";
}

export interface NodeLinks {
  heard(node: string, word: AgentWord): void;
  last(node: string): AgentWord | undefined;
  /** A registered stream of that process begins here. */
  linked(node: string, instance: string): void;
  /** The last stream of that process here ended; false: there was none. */
  unlinked(node: string, instance: string, why: string): boolean;
  /** The record of the node is known now; `own`: it was written by this controller. */
  sees(record: NodeRecord, own: boolean): void;
  /** It is no node any more. */
  forget(node: string): void;
  /** This controller has the node's link (NL1). */
  has(record: NodeRecord): boolean;
  live(record: NodeRecord): Live;
  /** How the link ended that is missing here. */
  ended(record: NodeRecord): LinkEnd | undefined;
  /** Nodes whose link is here, and whose record says something against that. */
  contradicted(): readonly string[];
  /** What is to be written now about links that are missing here, and when to look again. */
  due(): { readonly steps: readonly LinkStep[]; readonly next: number };
  /** The same of one node, as its record is known now. */
  step(node: string): LinkDecision["step"];
}

export interface NodeLinksDeps {
  readonly clock: Clock;
  readonly graceMs: number;
  readonly recordOf: (node: string) => NodeRecord | undefined;
}

const streamOf = (node: string, instance: string): string => `${node}\n${instance}`;

export const createNodeLinks = ({ clock, graceMs, recordOf }: NodeLinksDeps): NodeLinks => {
  const start = clock.monotonic();
  const words = new Map<string, AgentWord>();
  const streams = new Set<string>();
  const ends = new Map<string, LinkEnd>();
  /** Nodes whose link is not here, by the process that it is missing of. */
  const absent = new Map<string, { readonly instance: string; readonly absence: Absence }>();
  const disputed = new Set<string>();

  const has = ({ name, instance }: NodeRecord): boolean => streams.has(streamOf(name, instance));

  const begin = (kind: AbsenceKind, record: NodeRecord): void => {
    const absence = absenceFrom(kind, record, clock.monotonic(), graceMs);
    absent.set(record.name, { instance: record.instance, absence });
    disputed.delete(record.name);
  };

  const present = (record: NodeRecord): void => {
    absent.delete(record.name);
    if (isMarked(record) || record.admitted !== undefined) disputed.add(record.name);
    else disputed.delete(record.name);
  };

  return {
    heard(node, word) {
      words.set(node, word);
      const record = recordOf(node);
      // A stream that it came by may have ended before it was noted: the time without a link begins anew.
      if (record !== undefined && !has(record)) begin("ended", record);
    },
    last: (node) => words.get(node),
    linked(node, instance) {
      streams.add(streamOf(node, instance));
      const record = recordOf(node);
      if (record === undefined || !has(record)) return;
      ends.delete(node);
      present(record);
    },
    unlinked(node, instance, why) {
      if (!streams.delete(streamOf(node, instance))) return false;
      const record = recordOf(node);
      if (record === undefined || record.instance !== instance) return false;
      ends.set(node, { at: clock.now(), why });
      begin("ended", record);
      return true;
    },
    sees(record, own) {
      const known = absent.get(record.name);
      if (has(record)) {
        ends.delete(record.name);
        present(record);
      } else if (known?.instance !== record.instance) begin("awaited", record);
      else {
        const absence = absenceSeeing(known.absence, record, { own, now: clock.monotonic(), graceMs });
        absent.set(record.name, { instance: record.instance, absence });
      }
    },
    forget(node) {
      words.delete(node);
      ends.delete(node);
      absent.delete(node);
      disputed.delete(node);
    },
    has,
    live(record) {
      const word = words.get(record.name);
      if (has(record)) return word?.instance === record.instance && !word.accepting ? "suspect" : "alive";
      if (record.linkLost !== undefined) return "suspect";
      return word === undefined && clock.monotonic() - start < graceMs ? "unknown" : "alive"; // NL2
    },
    ended: (record) => (has(record) ? undefined : ends.get(record.name)),
    contradicted: () => [...disputed],
    due() {
      const now = clock.monotonic();
      const steps: LinkStep[] = [];
      let next = Number.POSITIVE_INFINITY;
      for (const [node, { absence }] of absent) {
        const { step, due } = linkDecision(absence, now, graceMs);
        if (step === "rest") next = Math.min(next, due);
        else steps.push({ node, step });
      }
      return { steps, next };
    },
    step(node) {
      const missing = absent.get(node);
      return missing === undefined ? "rest" : linkDecision(missing.absence, clock.monotonic(), graceMs).step;
    },
  };
};
