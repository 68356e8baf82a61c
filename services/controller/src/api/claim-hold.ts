import type { ClaimSelection, ClaimView } from "../commands/model.ts";
import type { ApiDeps } from "./api-deps.ts";
import { type HoldOptions, holdUntil } from "./hold-until.ts";
import { isOver, keysOf } from "./wait-claims.ts";

type Wait = Pick<HoldOptions<readonly ClaimView[]>, "context" | "waitMs">;
type Workload = Pick<ClaimSelection, "namespace" | "workload">;

export interface ClaimHold {
  /** Runs the command and holds its answer until every claim is ACTIVE or over. */
  untilSettled(of: Workload, wait: Wait, command: () => Promise<readonly ClaimView[]>): Promise<readonly ClaimView[]>;
  /** The same until every claim is over. */
  untilOver(of: Workload, wait: Wait, command: () => Promise<readonly ClaimView[]>): Promise<readonly ClaimView[]>;
}

/** Answers that wait for claims: woken by commits, in the order of the command's own answer, about those very lives. */
export const createClaimHold = ({
  commands,
  wakeups,
  clock,
}: Pick<ApiDeps, "commands" | "wakeups" | "clock">): ClaimHold => {
  const held =
    (settled: (all: readonly ClaimView[]) => boolean): ClaimHold["untilOver"] =>
    async ({ namespace, workload }, { context, waitMs }, command) => {
      const since = wakeups.version();
      const first = await command();
      const claimUids = first.map(({ claim }) => claim.uid);
      const read = async (): Promise<readonly ClaimView[]> => {
        const found = await commands.selectClaims({ namespace, workload, aliases: [], claimUids });
        return first.map((view) => found.find(({ claim }) => claim.uid === view.claim.uid) ?? view);
      };
      return holdUntil({ wakeups, clock, context, waitMs, since, first, keys: keysOf(first), settled, read });
    };

  return {
    untilSettled: held((all) => all.every((view) => isOver(view) || view.claim.state === "ACTIVE")),
    untilOver: held((all) => all.every(isOver)),
  };
};
