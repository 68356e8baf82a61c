/**
 * Who may do what on the Redis of a cell, as ACL rules to paste. The controller's user reaches the keys of its cell with the
 * commands that library.lua and the reads use, and nothing else: no scripts (any author of one has run code on the server,
 * CVE-2025-49844), no CONFIG (it shows passwords), no FUNCTION, KEYS or FLUSH*. The store's tests run as that user.
 */

import { createRedisKeys } from "./redis-keys.ts";

/** Called inside library.lua; functions run with the rights of their caller. */
const insideFunctions = ["time", "get", "set", "hmget", "hset", "zadd", "zrem", "zcard", "zrange", "xadd"];
/** Sent by the client itself; INFO also from within. */
const direct = ["fcall", "fcall_ro", "info", "xread", "xrange", "xrevrange", "wait", "client|setname", "cluster|nodes"];

export const controllerCommands: readonly string[] = [...direct, ...insideFunctions];

/** Loads the library, makes the identity of a new store, tells how durable the server is, and reads all of it for a backup. */
export const migratorCommands: readonly string[] = [
  "function|load",
  "fcall",
  "fcall_ro",
  "info",
  "config|get",
  "hget",
  "hmget",
  "hset",
  "xrevrange",
  "client|setname",
  "cluster|nodes",
  "scan",
  "time",
  "get",
  "zscore",
];

const rules = (cell: string, commands: readonly string[]): readonly string[] => [
  "resetkeys",
  "resetchannels",
  "-@all",
  `~${createRedisKeys(cell).prefix}*`,
  ...commands.map((command) => `+${command}`),
];

export const controllerRules = (cell: string): readonly string[] => rules(cell, controllerCommands);
export const migratorRules = (cell: string): readonly string[] => rules(cell, migratorCommands);

/** To paste into redis-cli; the password is left to whoever pastes. */
export const aclCommand = (user: string, granted: readonly string[]): string =>
  `ACL SETUSER ${user} reset on ><password> ${granted.join(" ")}`;
