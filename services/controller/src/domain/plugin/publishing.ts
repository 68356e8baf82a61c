/** What NodePublishVolume is told of the workload, and how often it is called again: by the plugin's profile and the policy of the volume. */
import { checkRequired, type Violation } from "../limits.ts";
import type { VolumePolicy } from "../volume/volume.ts";

export interface TokenRequest {
  readonly audience: string;
  readonly ttlSeconds: number;
}

/** Of a plugin's profile. */
export interface PublishingWishes {
  /** What NodePublishVolume is told of the workload. */
  readonly tokenRequests: readonly TokenRequest[];
  readonly requiresRepublish: boolean;
  /** 0 = the default of `publishingOf`. */
  readonly republishIntervalMs: number;
  /** For old drivers: there as well as in the secrets. */
  readonly tokensInVolumeContext: boolean;
}

export interface Publishing {
  /** Empty: none are wanted. */
  readonly tokens: readonly TokenRequest[];
  readonly inVolumeContext: boolean;
  /** The longest time until the call is made again; 0 = never. */
  readonly againMs: number;
}

/** As Kubernetes bounds them; and as many as fit into the 4 KiB of a map of CSI. */
const bounds = {
  leastSeconds: 600,
  mostSeconds: 3600,
  audiences: 4,
  leastAgainMs: 1_000,
  mostAgainMs: 86_400_000,
} as const;

export const defaultTtlSeconds = bounds.mostSeconds;

/** Without tokens nothing says when they are old. */
const defaultAgainMs = 60_000;
/** A token is replaced while it can still be used for a fifth of its time. */
const usedShare = 0.8;

const bounded = ({ ttlSeconds }: TokenRequest): number =>
  Math.min(Math.max(ttlSeconds, bounds.leastSeconds), bounds.mostSeconds);

export const publishingOf = (
  profile: PublishingWishes,
  policy: Pick<VolumePolicy, "identityTokens" | "requiresRepublish">,
): Publishing => {
  const asked = policy.identityTokens.length > 0 ? policy.identityTokens : profile.tokenRequests;
  // What an earlier version stored was not bounded.
  const tokens = asked.map((one) => ({ ...one, ttlSeconds: bounded(one) }));
  const fresh = tokens.length === 0 ? defaultAgainMs : usedShare * 1000 * Math.min(...tokens.map(bounded));
  const set = profile.republishIntervalMs;
  const again = tokens.length === 0 ? set || fresh : Math.min(set || fresh, fresh);
  return {
    tokens,
    inVolumeContext: profile.tokensInVolumeContext,
    againMs: profile.requiresRepublish || policy.requiresRepublish ? again : 0,
  };
};

/** `ttl`: the name of the field of the lifetime. */
export const checkTokenRequests = (
  field: string,
  ttl: "expiration" | "ttl",
  tokens: readonly TokenRequest[],
): readonly Violation[] => [
  ...(tokens.length > bounds.audiences
    ? [{ field, description: `holds ${tokens.length}; the most is ${bounds.audiences}` }]
    : []),
  ...tokens.flatMap(({ audience, ttlSeconds }, i) => [
    ...checkRequired(`${field}[${i}].audience`, audience),
    ...(tokens.findIndex((other) => other.audience === audience) < i
      ? [{ field: `${field}[${i}].audience`, description: "is named once more" }]
      : []),
    ...(ttlSeconds >= bounds.leastSeconds && ttlSeconds <= bounds.mostSeconds
      ? []
      : [{ field: `${field}[${i}].${ttl}`, description: "has to be 10m to 1h" }]),
  ]),
];

export const checkRepublishInterval = (field: string, ms: number): readonly Violation[] =>
  ms === 0 || (ms >= bounds.leastAgainMs && ms <= bounds.mostAgainMs)
    ? []
    : [{ field, description: "has to be 1s to 24h, or absent" }];
