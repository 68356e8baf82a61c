/** Why a master takes no writes: fewer replicas keep up with it than `min-replicas-to-write` wants. */
import type { FieldViolation } from "@holdfast/shared/errors/holdfast-error";

const cureFor = (connected: number, wanted: number): string => {
  const mend = "start its replicas, or mend the network to them; it takes writes again by itself";
  return connected < wanted
    ? `${mend}; when they are gone for good: CONFIG SET min-replicas-to-write ${connected}, and in redis.conf`
    : `${mend}; see their logs for why they do not keep up (min-replicas-max-lag)`;
};

/** `asked`: the setting as CONFIG tells it now. INFO counts the replicas that keep up only where the setting is above 0. */
export const missingReplicas = (
  info: Readonly<Record<string, string>>,
  asked: number | undefined,
): FieldViolation | undefined => {
  const { min_slaves_good_slaves: told, connected_slaves: followers } = info;
  const wanted = asked ?? 1;
  if (told === undefined || Number(told) >= wanted) return undefined;
  const connected = Number(followers ?? 0);
  const replicas = `of its ${connected} connected replicas ${told} keep up, and min-replicas-to-write wants ${asked ?? "at least 1"}`;
  return {
    field: "min-replicas-to-write",
    description: `it refuses every write with NOREPLICAS, because ${replicas}: ${cureFor(connected, wanted)}`,
  };
};
