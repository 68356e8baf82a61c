import type { ClaimView } from "../../commands/model.ts";
import type { Claim } from "../../domain/claim/claim.ts";
import type { ApiDeps } from "../api-deps.ts";
import { type HoldOptions, holdUntil } from "../hold-until.ts";
import { keysOf } from "./wait-claims.ts";

type Wait = Pick<HoldOptions<unknown>, "context" | "waitMs">;

export interface ClaimHold {
  /** Runs the command and holds its answer until every claim is ACTIVE or over. */
  untilSettled(wait: Wait, command: () => Promise<readonly ClaimView[]>): Promise<readonly ClaimView[]>;
  /** Until all are ACTIVE, or it is certain that they will not be by themselves: one of them is over, or blocked. */
  untilDecided(wait: Wait, command: () => Promise<readonly ClaimView[]>): Promise<readonly ClaimView[]>;
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
  /** Whether claims, `undefined` for those that are over, need not be waited for. */
  const held =
    (isSettled: (claims: readonly (Claim | undefined)[]) => boolean): ClaimHold["untilOver"] =>
    async ({ context, waitMs }, command) => {
      const since = wakeups.version();
      const answered = await command();
      const claimNow = async (view: ClaimView): Promise<Claim | undefined> => {
        if (view.kind === "over") return undefined;
        const found = await recent(view.volume);
        return found?.volume.claims[view.claim.uid];
      };
      const first = answered.map((view) => (view.kind === "over" ? undefined : view.claim));
      if (waitMs <= 0 || isSettled(first)) return answered;
      const read = () => Promise.all(answered.map(claimNow));
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
    untilSettled: held(areSettled),
    untilDecided: held(
      (claims) =>
        claims.every((claim) => claim?.state === "ACTIVE") ||
        claims.some((claim) => claim === undefined || claim.blocked !== undefined),
    ),
    untilOver: held((claims) => claims.every((claim) => claim === undefined)),
  };
};

const areSettled = (claims: readonly (Claim | undefined)[]): boolean =>
  claims.every((claim) => claim === undefined || claim.state === "ACTIVE");
