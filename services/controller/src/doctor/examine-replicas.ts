/** Who follows a Redis, by what it says of its replication: it may have to be replaced by one of them. */
import { type Finding, warning } from "@holdfast/shared/doctor/finding";

export interface Replica {
  readonly at: string;
  readonly state: string;
  /** Since it was heard last. */
  readonly lagSeconds: number;
}

type Info = Readonly<Record<string, string>>;

const wanted = 2;
/** The default of min-replicas-max-lag: one that is further behind does not count for min-replicas-to-write. */
const mostLagSeconds = 10;

/** Each is a line like `slave0:ip=10.0.0.2,port=6379,state=online,offset=42,lag=0`. */
export const replicasOf = (info: Info): readonly Replica[] =>
  Object.entries(info)
    .filter(([name]) => /^slave\d+$/.test(name))
    .map(([, line]) => {
      const fields = new Map(line.split(",").map((part) => [part.split("=")[0], part.split("=")[1] ?? ""] as const));
      const field = (name: string): string => fields.get(name) ?? "unknown";
      return { at: `${field("ip")}:${field("port")}`, state: field("state"), lagSeconds: Number(field("lag")) };
    });

const keepsUp = ({ state, lagSeconds }: Replica): boolean => state === "online" && lagSeconds <= mostLagSeconds;

export const examineReplicas = (shown: string, info: Info): readonly Finding[] => {
  const replicas = replicasOf(info);
  const late = replicas.filter((replica) => !keepsUp(replica));
  const few =
    replicas.length >= wanted
      ? []
      : [
          warning(
            "store-replicas",
            shown,
            replicas.length === 0
              ? "no replica follows it: when its disk is lost the store is what the last backup holds"
              : "one replica follows it: while that one is restarted, min-replicas-to-write stops every write",
            "let two replicas follow it, behind sentinels or in a cluster (docs/redis.md)",
          ),
        ];
  return [
    ...few,
    ...late.map(({ at, state, lagSeconds }) =>
      warning(
        "store-replica-late",
        `${shown} replica ${at}`,
        `is ${state} and was heard ${lagSeconds} s ago: a failover to it loses what it has not received`,
        "look at its log, at its disk and at the network between the two",
      ),
    ),
  ];
};

/** For the finding that all is well. */
export const replicationText = (info: Info): string =>
  `${info["role"] ?? "of unknown role"}, ${replicasOf(info).length} replicas, replication id ${info["master_replid"] ?? "unknown"}`;
