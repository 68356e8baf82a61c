import type { DrainNodeResponse } from "@holdfast/shared/gen/holdfast/v1/node";
import { blockedFailure } from "../stuck-failure.ts";

/** Ends the wait for an empty node when every claim that is left is blocked. While one of them goes on, the wait goes on as well. */
export const failIfAllBlocked = (
  name: string,
  { remaining, remainingCount }: Pick<DrainNodeResponse, "remaining" | "remainingCount">,
): void => {
  const [first] = remaining;
  if (first?.blocked === undefined || !remaining.every(({ blocked }) => blocked !== undefined)) return;
  const whose = first.workload === "" ? `what is ${first.state} of` : `the claim of ${first.workload} to`;
  const what = `${whose} ${first.namespace}/${first.volume}, one of ${remainingCount} that are left on ${name},`;
  throw blockedFailure(what, first.blocked, `holdfast repair stuck --node ${name}`);
};
