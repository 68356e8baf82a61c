import type { PluginTimes } from "./call-times.ts";

/** Something that can be asked for volumes: the product, or the floor it is measured against. */
export interface Subject {
  readonly name: string;
  /** Claims the volume of that number and resolves once it is usable. */
  claim(index: number): Promise<void>;
  /** Gives it back and resolves once nothing of it is left. */
  release(index: number): Promise<void>;
  /** Its processes, by their part, for the CPU time they took. */
  readonly pids: Readonly<Record<string, readonly number[]>>;
  stop(): Promise<void>;
}

/** One whose plugins note what they take. */
export interface MeasuredSubject extends Subject {
  /** What the plugins call the volume of that number. */
  externalId(index: number): string;
  callTimes(): Promise<PluginTimes>;
}
