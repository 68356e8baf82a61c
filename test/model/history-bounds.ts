/**
 * How far each search of the histories goes. A bound is of the environment alone: what the product may do is not bounded.
 *
 * No commit waits for a replica here: each loss and each failover may take commits that were acknowledged, and nothing rests on that wait.
 * Where nodes are compared at once, a promise, the inventory after it and its comparison are one step; `inventories of the past` and the
 * bounds of hosts take them apart.
 */
import type { HistoryOptions } from "./histories/one-history.ts";

const one: HistoryOptions = { controllers: 1, claims: 2 };
const atOnce: HistoryOptions = { ...one, comparesAtOnce: true };
const both: HistoryOptions = { controllers: 2, claims: 1, comparesAtOnce: true };
const losing: HistoryOptions = { ...atOnce, copies: 1, losses: 1 };

export const historyBounds = {
  /** One of `npm test`. */
  "histories in short": { ...losing, claims: 1 },
  "commits that are lost": losing,
  "commits that are lost, step by step": { ...one, copies: 1, losses: 1 },
  "inventories of the past": { ...one, claims: 1, copies: 1, losses: 1 },
  "commits that are lost, and late orders": { ...losing, claims: 1, lateOrders: 1, cuts: 1 },
  "commits that are lost, and boots": { ...losing, claims: 1, reboots: 1 },
  "a newcomer that is lost": { ...losing, newcomer: true },
  "a fence that is shown again": { ...atOnce, fencedBefore: true, losses: 1, cuts: 1 },
  "an older file in the same process": { ...atOnce, copies: 1, reloads: 1 },
  "an old master that goes on": { ...both, copies: 1, splits: 1 },
  "two histories of one number": { ...both, claims: 0, split: true, restarts: 1 },
  "two vettings at once": { ...both, restarts: 1 },
  "controllers that start anew": { ...atOnce, kills: 1, emptied: 1, restarts: 1 },
  boots: { ...one, reboots: 1, agentRestarts: 1 },
  "late orders to hosts": { ...one, cuts: 1, lateOrders: 1 },
  images: { ...one, offs: 1, images: 1 },
  "a machine that is off": { ...one, offs: 1, fences: 1 },
  "a copied host": { ...one, clones: 1 },
  "a copied host beside one that is cut off": { ...atOnce, clones: 1, cuts: 1 },
  "a copy that was taken for its host, in short": { ...atOnce, claims: 1, copiedBefore: true, losses: 1 },
  "a copy that was taken for its host": { ...atOnce, copiedBefore: true, losses: 1 },
} as const satisfies Readonly<Record<string, HistoryOptions>>;

export type HistoryName = keyof typeof historyBounds;

/** The bounds whose every state `npm run model` sees. */
export const exhaustedHistories: readonly HistoryName[] = (Object.keys(historyBounds) as readonly HistoryName[]).filter(
  (name) => name !== "histories in short",
);
