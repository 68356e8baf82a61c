/** What agents may say while the records of a lost store are made anew: who they are. Nothing that they tell is taken for settled. */
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { type ControllerLinkOptions, createControllerLinkService } from "./controller-link-service.ts";
import type { AgentLink } from "./open-stream.ts";

/** For workloads whose agent asks meanwhile. */
const refused = async (): Promise<never> => {
  throw new HoldfastError({
    kind: "unavailable",
    reason: "STORE_UNAVAILABLE",
    message: "the store was lost, and its records are being made anew; repeat when the controllers run again",
  });
};

export const createRebuildLink = (options: Omit<ControllerLinkOptions, "acknowledgements" | "news">): AgentLink => ({
  ...createControllerLinkService({
    ...options,
    // Nothing is on record here: what was released is told again to the next controller.
    acknowledgements: { released: async () => [], lost: async () => undefined },
    news: { take: async () => undefined },
  }),
  requestClaims: refused,
  releaseClaims: refused,
  issueTokens: refused,
  getHealthSecrets: refused,
  makeVolume: refused,
  removeVolume: refused,
  findVolumes: refused,
});
