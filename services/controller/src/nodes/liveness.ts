/**
 * Who was heard of lately, by this controller's monotonic clock alone. It decides whether new claims are granted, and nothing else.
 *
 * L1 A node is suspect only after three missed heartbeats, and never before this controller has been up for three periods: until then
 * silence is this controller's own.
 */
import type { Clock } from "@holdfast/shared/async/clock";

export type Live = "alive" | "suspect" | "unknown";

export interface Heard {
  readonly instance: string;
  /** Of the fingerprints that this controller has. */
  readonly revision: number;
  readonly accepting: boolean;
  readonly message: string;
}

export interface Liveness {
  heard(node: string, beat: Heard): void;
  /** It is no node any more. */
  forget(node: string): void;
  last(node: string): (Heard & { readonly wall: number }) | undefined;
  live(node: string): Live;
  /** Whether the node was heard of within three periods, accepting or not. */
  present(node: string): boolean;
}

export const missedBeats = 3;

export const createLiveness = ({ clock, periodMs }: { readonly clock: Clock; readonly periodMs: number }): Liveness => {
  const start = clock.monotonic();
  const beats = new Map<string, Heard & { readonly at: number; readonly wall: number }>();
  const within = (since: number): boolean => clock.monotonic() - since <= missedBeats * periodMs;

  return {
    heard(node, beat) {
      beats.set(node, { ...beat, at: clock.monotonic(), wall: clock.now() });
    },
    forget: (node) => void beats.delete(node),
    last: (node) => beats.get(node),
    present(node) {
      const beat = beats.get(node);
      return beat !== undefined && within(beat.at);
    },
    live(node) {
      const beat = beats.get(node);
      if (beat !== undefined && within(beat.at)) return beat.accepting ? "alive" : "suspect";
      if (beat === undefined && within(start)) return "unknown"; // L1
      return "suspect";
    },
  };
};
