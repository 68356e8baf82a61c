/**
 * What agents measured of volumes, kept for a while.
 *
 * N1 An agent is asked anew for a volume whose figures are older than `maxAgeMs`, or than a publication there; for the same
 * publication once; what could not be measured, a fifth of that time later. N2 Callers at the same time share one question. N3 A node
 * that does not answer, or takes long, is an error beside what it told before: never a gap, and no longer a wait than `patienceMs`.
 * N4 What is kept is bounded; the longest unasked goes first.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import type { AgentGateway } from "../agent-ports.ts";
import type { FiguresWanted, VolumeSample } from "../domain/volume/volume-sample.ts";
import type { Figures, Nodes } from "../ports.ts";

export interface NodeFiguresOptions {
  readonly agents: Pick<AgentGateway, "stats">;
  readonly nodes: Pick<Nodes, "get">;
  readonly clock: Pick<Clock, "now" | "monotonic" | "timer">;
  readonly signal: AbortSignal;
  readonly maxAgeMs?: number;
  readonly kept?: number;
  readonly patienceMs?: number;
}

interface Entry {
  readonly sample: VolumeSample;
  readonly takenAt: number;
  /** The publication for which it was asked; later ones need figures of their own. */
  readonly since: number;
}

/** "At most 500", says the agent's API. */
const maxUids = 500;

export const createNodeFigures = (options: NodeFiguresOptions): Figures => {
  const { agents, nodes, clock, signal, maxAgeMs = 10_000, kept = 20_000, patienceMs = 5_000 } = options;
  const entries = new Map<string, Entry>();
  const asking = new Map<string, Promise<void>>();
  const keyOf = (node: string, volumeUid: string): string => `${node}/${volumeUid}`;

  const keep = (key: string, entry: Entry): void => {
    entries.delete(key);
    entries.set(key, entry);
    const oldest = entries.size > kept ? entries.keys().next().value : undefined;
    if (oldest !== undefined) entries.delete(oldest); // N4
  };

  const failed = (volumeUid: string, before: VolumeSample | undefined, reason: string, message: string) => ({
    ...(before ?? { volumeUid, usage: [] }),
    error: { reason, message, at: clock.now() },
  });

  /** Why a node cannot be asked now. A silent one may take long not to answer. */
  const trouble = (name: string): { readonly reason: string; readonly message: string } | undefined => {
    const view = nodes.get(name);
    if (view === undefined)
      return { reason: "NODE_NOT_FOUND", message: `no agent ever registered as node ${name}, or it was forgotten` };
    return view.live === "suspect"
      ? { reason: "NODE_NOT_READY", message: `the agent of node ${name} is silent; its volumes stay mounted` }
      : undefined;
  };

  const ask = async (node: string, wanted: readonly FiguresWanted[]): Promise<void> => {
    const store = (volumeUid: string, since: number, sample: VolumeSample): void =>
      keep(keyOf(node, volumeUid), { sample, takenAt: clock.monotonic(), since });
    const view = nodes.get(node);
    const why = trouble(node);
    try {
      if (view === undefined || why !== undefined) throw new Error(why?.message);
      const uids = wanted.map(({ volumeUid }) => volumeUid);
      const samples = new Map((await agents.stats(view.record, uids, signal)).map((one) => [one.volumeUid, one]));
      for (const { volumeUid, since } of wanted)
        store(
          volumeUid,
          since,
          samples.get(volumeUid) ??
            failed(volumeUid, undefined, "VOLUME_NOT_HERE", `the agent of node ${node} did not tell of it`),
        );
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      for (const { volumeUid, since } of wanted) {
        const before = entries.get(keyOf(node, volumeUid))?.sample;
        store(volumeUid, since, failed(volumeUid, before, why?.reason ?? "NODE_NOT_READY", message)); // N3
      }
    }
  };

  /** False: it goes on, and nobody waits for it here any longer. */
  const patiently = (work: Promise<unknown>): Promise<boolean> =>
    new Promise((resolve) => {
      const cancel = clock.timer(patienceMs, () => resolve(false));
      const done = (): void => {
        cancel();
        resolve(true);
      };
      work.then(done, done);
    });

  const isFresh = (entry: Entry | undefined, since: number): boolean =>
    entry !== undefined &&
    clock.monotonic() - entry.takenAt < (entry.sample.error === undefined ? maxAgeMs : maxAgeMs / 5) &&
    entry.since >= since; // N1

  return {
    async of(node, wanted) {
      const known = (one: FiguresWanted) => entries.get(keyOf(node, one.volumeUid));
      const stale = wanted.filter((one) => !isFresh(known(one), one.since));
      const waiting = new Set<Promise<void>>();
      const fresh: FiguresWanted[] = [];
      for (const one of stale) {
        const under = asking.get(keyOf(node, one.volumeUid));
        if (under === undefined) fresh.push(one);
        else waiting.add(under); // N2
      }
      for (let from = 0; from < fresh.length; from += maxUids) {
        const part = fresh.slice(from, from + maxUids);
        const keys = part.map(({ volumeUid }) => keyOf(node, volumeUid));
        const asked = ask(node, part).finally(() => {
          for (const key of keys) asking.delete(key);
        });
        for (const key of keys) asking.set(key, asked);
        waiting.add(asked);
      }
      const inTime = await patiently(Promise.all(waiting));
      const late = (one: FiguresWanted): boolean => !inTime && asking.has(keyOf(node, one.volumeUid));
      const message = `the agent of node ${node} has not answered within ${patienceMs} ms; ask again`;
      return wanted.map((one) => {
        const sample = known(one)?.sample;
        return late(one) || sample === undefined ? failed(one.volumeUid, sample, "NODE_NOT_READY", message) : sample;
      });
    },
  };
};
