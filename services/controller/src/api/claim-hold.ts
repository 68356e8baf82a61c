import type { ClaimView } from "../commands/model.ts";
import type { ClaimState } from "../domain/claim.ts";
import type { ApiDeps } from "./api-deps.ts";
import { type HoldOptions, holdUntil } from "./hold-until.ts";
import { isOver, keysOf } from "./wait-claims.ts";

type Wait = Pick<HoldOptions<unknown>, "context" | "waitMs">;

export interface ClaimHold {
  /** Runs the command and holds its answer until every claim is ACTIVE or over. */
  untilSettled(wait: Wait, command: () => Promise<readonly ClaimView[]>): Promise<readonly ClaimView[]>;
  /** The same until every claim is over. */
  untilOver(wait: Wait, command: () => Promise<readonly ClaimView[]>): Promise<readonly ClaimView[]>;
}

/**
 * Answers that wait for claims: woken by commits, in the order of the command's own answer, about those very lives. Only what this process
 * knows is looked at, and the tombstones of those that ended meanwhile.
 */
export const createClaimHold = ({
  commands,
  recent,
  wakeups,
  clock,
}: Pick<ApiDeps, "commands" | "recent" | "wakeups" | "clock">): ClaimHold => {
  /** Whether a claim, or `undefined` where it is over, need not be waited for. */
  const held =
    (settled: (state: ClaimState | undefined) => boolean): ClaimHold["untilOver"] =>
    async ({ context, waitMs }, command) => {
      const since = wakeups.version();
      const answered = await command();
      const stateNow = async (view: ClaimView): Promise<ClaimState | undefined> => {
        if (view.kind === "over") return undefined;
        const found = await recent(view.volume);
        return found?.volume.claims[view.claim.uid]?.state;
      };
      const first = answered.map((view) => (isOver(view) ? undefined : view.claim.state));
      const isSettled = (states: readonly (ClaimState | undefined)[]): boolean => states.every(settled);
      if (waitMs <= 0 || isSettled(first)) return answered;
      const read = () => Promise.all(answered.map(stateNow));
      await holdUntil({
        wakeups,
        clock,
        context,
        waitMs,
        since,
        first,
        keys: keysOf(answered),
        settled: isSettled,
        read,
      });
      return await commands.claimsNow(answered);
    };

  return {
    untilSettled: held((state) => state === undefined || state === "ACTIVE"),
    untilOver: held((state) => state === undefined),
  };
};
