import { redisKeys } from "./redis-keys.ts";

/**
 * What the running controller may do in Redis, and nothing else: its functions, the commands they use, its reads, on its cell's keys.
 * No EVAL, SCRIPT, FUNCTION, CONFIG, FLUSH* or KEYS: whoever may write scripts may run code in Redis (CVE-2025-49844).
 */
const commands = [
  "fcall",
  "info",
  "time",
  "ping",
  "hget",
  "hmget",
  "hset",
  "hdel",
  "persist",
  "pexpire",
  "zadd",
  "zrem",
  "zrange",
  "xadd",
  "xread",
  "xrevrange",
  "xinfo|stream",
] as const;

/** The rules of ACL SETUSER for the controllers of a cell. */
export const runtimeAcl = (cell: string): readonly string[] => [
  "resetkeys",
  "resetchannels",
  "-@all",
  ...commands.map((c) => `+${c}`),
  `~${redisKeys(cell).prefix}:*`,
];
