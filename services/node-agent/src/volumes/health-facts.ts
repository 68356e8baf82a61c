/** How the agent itself is, as its heartbeats say. */
import type { Halt } from "../domain/answer-types.ts";
import type { Ledger } from "../ports.ts";

export interface HealthFacts {
  readonly notAccepting: string | undefined;
  readonly publications: number;
  readonly blocked: number;
  readonly unacknowledged: number;
}

export function healthFacts(ledger: Ledger, halts: ReadonlyMap<string, Halt>, quarantined: boolean): HealthFacts {
  let publications = 0;
  let unacknowledged = 0;
  for (const { claims, dead } of ledger.volumes()) {
    for (const { phase } of Object.values(claims)) if (phase === "published") publications += 1;
    for (const { late } of dead) if (late) unacknowledged += 1;
  }
  const blocked = [...halts.values()].filter((halt) => halt.blocked !== undefined).length;
  const notAccepting = quarantined ? "the node was fenced, and it is not free to mount yet" : ledger.fullBecause();
  return { notAccepting, publications, blocked, unacknowledged };
}
