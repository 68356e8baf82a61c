/**
 * What changed about which workload, in order, so that a watch can be resumed. The history is in memory and bounded: who is
 * behind it, or comes from another life of the agent, begins anew.
 *
 * F1 The position is taken before the first workload is read: no change falls between the two.
 * F2 A change only wakes: what is told is read when it is told.
 * F3 A watcher that is slow holds up nobody: it reads from the history, or learns that it is trimmed.
 */
import { createNotifier } from "@holdfast/shared/async/notifier";
import { HoldfastError, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import { type WorkloadName, workloadKey } from "../domain/workload-machine.ts";
import type { WorkloadManager } from "./workload-manager.ts";
import type { WorkloadView } from "./workload-views.ts";

export interface WorkloadChange {
  readonly kind: "existing" | "synced" | "changed" | "removed";
  readonly view?: WorkloadView;
  readonly resumeToken: string;
}

export interface WorkloadFilter {
  /** Empty means all. */
  readonly namespace: string;
  readonly workload: string;
}

export interface WorkloadFeed {
  /** Something of this workload is not as it was. */
  note(name: WorkloadName): void;
  watch(filter: WorkloadFilter, resumeToken: string, signal: AbortSignal): AsyncGenerator<WorkloadChange>;
}

export interface WorkloadFeedOptions {
  readonly workloads: Pick<WorkloadManager, "find" | "names">;
  /** One life of the agent. */
  readonly instance: string;
  /** Changes that are kept. */
  readonly keep: number;
}

interface Position {
  readonly at: number;
  /** In the first part still: the key after which it goes on. */
  readonly after: string | undefined;
}

export function createWorkloadFeed({ workloads, instance, keep }: WorkloadFeedOptions): WorkloadFeed {
  const history: WorkloadName[] = [];
  let first = 1;
  const changes = createNotifier();
  const last = (): number => first + history.length - 1;

  const write = ({ at, after }: Position): string =>
    Buffer.from(JSON.stringify(after === undefined ? [instance, at] : [instance, at, after])).toString("base64url");

  const trimmed = (): HoldfastError =>
    new HoldfastError({
      kind: "out_of_range",
      reason: "EVENTS_TRIMMED",
      message: "the agent's history does not reach back to the token; open the watch anew with no token",
      metadata: { oldest_token: write({ at: first - 1, after: undefined }) },
    });

  const read = (token: string): Position | undefined => {
    if (token === "") return undefined;
    const position = parse(token);
    if (position === undefined)
      throw invalidArgument([{ field: "resume_token", description: "is no token of this watch" }]);
    if (position.instance !== instance || position.at > last()) throw trimmed();
    return position;
  };

  const fits = (filter: WorkloadFilter, name: WorkloadName): boolean =>
    (filter.namespace === "" || filter.namespace === name.namespace) &&
    (filter.workload === "" || filter.workload === name.workload);

  return {
    note(name) {
      history.push({ namespace: name.namespace, workload: name.workload });
      if (history.length > keep) {
        history.shift();
        first += 1;
      }
      changes.notify();
    },

    async *watch(filter, resumeToken, signal) {
      const start = read(resumeToken) ?? { at: last(), after: "" }; // F1
      if (start.after !== undefined) {
        const { after } = start;
        const names = workloads.names().filter((name) => fits(filter, name) && workloadKey(name) > after);
        for (const name of names.sort((a, b) => (workloadKey(a) < workloadKey(b) ? -1 : 1))) {
          const view = await workloads.find(name);
          const token = write({ at: start.at, after: workloadKey(name) });
          if (view !== undefined) yield { kind: "existing", view, resumeToken: token };
        }
        yield { kind: "synced", resumeToken: write({ at: start.at, after: undefined }) };
      }
      let at = start.at + 1;
      for (;;) {
        const since = changes.version();
        if (at < first) throw trimmed(); // F3
        const name = history[at - first];
        if (name === undefined) {
          await changes.wait(since, signal);
          continue;
        }
        const token = write({ at, after: undefined });
        at += 1;
        if (!fits(filter, name)) continue;
        const view = await workloads.find(name); // F2
        if (view !== undefined) yield { kind: "changed", view, resumeToken: token };
        else yield { kind: "removed", view: { ...name, mounts: [], claims: [], ready: false }, resumeToken: token };
      }
    },
  };
}

function parse(token: string): (Position & { readonly instance: string }) | undefined {
  try {
    const parsed: unknown = JSON.parse(Buffer.from(token, "base64url").toString("utf8"));
    if (!Array.isArray(parsed)) return undefined;
    const [instance, at, after]: readonly unknown[] = parsed;
    if (typeof instance !== "string" || typeof at !== "number" || !Number.isSafeInteger(at) || at < 0) return undefined;
    if (after !== undefined && typeof after !== "string") return undefined;
    return { instance, at, after };
  } catch {
    return undefined;
  }
}
