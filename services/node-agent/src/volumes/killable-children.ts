/**
 * Small programs that may touch what a volume covers, and so may hang: never this process.
 *
 * C1 Every child has a deadline and is killed at it; one that does not even die is left behind, and nobody waits for it.
 * C2 A volume has a budget of children that were left behind: past it no other is started for it until one has ended.
 */
import { spawn } from "node:child_process";
import type { Clock } from "@holdfast/shared/async/clock";
import { bareEnvironment } from "@holdfast/shared/bare-environment";
import type { KillableChildren } from "../ports.ts";

export interface KillableChildrenOptions {
  readonly clock: Clock;
  readonly deadlineMs: number;
  readonly budget?: number;
}

const maxSaid = 1_024;

export function createKillableChildren({ clock, deadlineMs, budget = 2 }: KillableChildrenOptions): KillableChildren {
  const left = new Map<string, number>();
  const count = (volume: string, by: number): void => {
    const next = (left.get(volume) ?? 0) + by;
    if (next > 0) left.set(volume, next);
    else left.delete(volume);
  };

  return {
    leftBehind: (volume) => left.get(volume) ?? 0,
    run(volume, command, args) {
      if ((left.get(volume) ?? 0) >= budget) return Promise.resolve({ kind: "hung" }); // C2
      return new Promise((resolve) => {
        const child = spawn(command, args, {
          stdio: ["ignore", "ignore", "pipe"],
          env: bareEnvironment,
          detached: true,
        });
        let said = "";
        let late = false;
        const stopTimer = clock.timer(deadlineMs, () => {
          late = true;
          count(volume, 1);
          child.kill("SIGKILL"); // C1
          child.stderr.destroy();
          child.unref();
          resolve({ kind: "hung" });
        });
        const end = (code: number, words: string): void => {
          stopTimer();
          if (late) count(volume, -1);
          resolve({ kind: "ended", code, said: words });
        };
        child.stderr.on("data", (chunk: Buffer) => {
          if (said.length < maxSaid) said += chunk.toString("utf8");
        });
        child.once("error", (error) => end(-1, error.message));
        child.once("exit", () => child.stderr.destroy());
        child.once("close", (code) => end(code ?? -1, said.trim().slice(0, maxSaid)));
      });
    },
  };
}
