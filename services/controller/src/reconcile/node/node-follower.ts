/**
 * Looks after the nodes that are of some concern: at each change of such a node, and again after a while, one look at a node at a time.
 * A node that is of no concern any more is looked at once more.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { every } from "@holdfast/shared/async/every";
import { createKeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import { isAbort } from "@holdfast/shared/async/signals";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Nodes } from "../../ports.ts";

export interface NodeFollowerOptions {
  /** For the log, such as "a drain". */
  readonly what: string;
  readonly nodes: Pick<Nodes, "list" | "onChange">;
  readonly isConcern: (node: string) => boolean;
  readonly look: (node: string) => Promise<void>;
  /** For what no event tells. */
  readonly againMs: number;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

export interface NodeFollower {
  /** Looks again at every node that is of concern until the signal; rejects then. */
  run(): Promise<never>;
  /** What it has begun is over; for tests. */
  idle(): Promise<void>;
}

export const createNodeFollower = (options: NodeFollowerOptions): NodeFollower => {
  const { what, nodes, isConcern, look, againMs, clock, log, signal } = options;
  const followed = new Set<string>();
  const lanes = createKeyedLanes();
  const running = new Set<Promise<void>>();

  const lookOnce = async (node: string): Promise<void> => {
    if (isConcern(node)) followed.add(node);
    else followed.delete(node);
    await look(node);
  };

  const follow = (node: string): void => {
    if (signal.aborted || lanes.waiting(node) > 0 || (!isConcern(node) && !followed.has(node))) return;
    const task = lanes
      .run(node, signal, () => lookOnce(node))
      .catch((error: unknown) => {
        if (!signal.aborted && !isAbort(error))
          log.warn(`${what} was not followed; it is tried again`, { node, error });
      });
    running.add(task);
    void task.finally(() => running.delete(task));
  };

  const idle = async (): Promise<void> => {
    while (running.size > 0) await Promise.all(running);
  };

  nodes.onChange(follow);

  return {
    async run() {
      for (const { record } of nodes.list()) follow(record.name);
      const again = async () => {
        for (const node of [...followed]) follow(node);
        await idle();
      };
      const onError = (error: unknown) => log.error(`following ${what} failed`, { error });
      return await every(againMs, again, { signal, clock, onError });
    },
    idle,
  };
};
