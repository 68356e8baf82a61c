/** What the listeners were told of each node, and since when it is in the state that is shown. */
import type { Clock } from "@holdfast/shared/async/clock";
import { createEmitter } from "@holdfast/shared/async/emitter";
import type { NodeRecord } from "../domain/node/node.ts";
import type { Live } from "./node-links.ts";
import type { StoredNode } from "./node-store.ts";

export interface NodeNews {
  /** Tells all listeners of the node as it is known now. */
  tell(node: string): void;
  /** It shows another liveness than they were told. */
  stale(record: NodeRecord): boolean;
  /** The revision of the record that they were told of last. */
  toldRev(node: string): number | undefined;
  /** Wall clock. */
  since(node: string): number | undefined;
  forget(node: string): void;
  onChange(listener: (node: string) => void): () => void;
}

export interface NodeNewsDeps {
  readonly known: ReadonlyMap<string, StoredNode>;
  readonly live: (record: NodeRecord) => Live;
  readonly clock: Pick<Clock, "now">;
}

export const createNodeNews = ({ known, live, clock }: NodeNewsDeps): NodeNews => {
  const told = new Map<string, { readonly live: Live | undefined; readonly rev: number }>();
  const since = new Map<string, { readonly state: string; readonly at: number }>();
  const listeners = createEmitter<[node: string]>();

  /** When this controller saw the state that it shows now. */
  const noteSince = (name: string, record: NodeRecord | undefined): void => {
    if (record === undefined) {
      since.delete(name);
      return;
    }
    const state = `${record.state} ${live(record) === "suspect"}`;
    const before = since.get(name);
    if (before?.state !== state)
      since.set(name, { state, at: before === undefined ? record.registeredAt : clock.now() });
  };

  return {
    tell(name) {
      const node = known.get(name);
      told.set(name, { live: node && live(node.record), rev: node?.rev ?? 0 });
      noteSince(name, node?.record);
      listeners.tell(name);
    },
    stale: (record) => told.get(record.name)?.live !== live(record),
    toldRev: (name) => told.get(name)?.rev,
    since: (name) => since.get(name)?.at,
    forget: (name) => void told.delete(name),
    onChange: listeners.on,
  };
};
