/** How far each search goes. A bound is of the environment alone: what the product may do is not bounded. */
import type { OneVolumeOptions } from "./volume/model-options.ts";

/** Failures of a plugin that say nothing for certain, with and without their effect, and one that refuses. */
const failing: OneVolumeOptions["failures"] = [
  { reply: "INTERNAL", effect: true },
  { reply: "INTERNAL", effect: false },
  { reply: "INVALID_ARGUMENT", effect: false, of: "ControllerPublishVolume" },
];
const calm: OneVolumeOptions = {
  gates: "relays",
  silence: true,
  onTheWay: 1,
  claims: 1,
  kills: 0,
  gateDeaths: 0,
  lateOrders: 0,
  copies: 0,
  overtakings: 0,
  failures: [],
};

export const bounds = {
  /** The two of `npm test`. */
  "relays in short": { ...calm, silence: false },
  "sockets in short": { ...calm, gates: "sockets", failures: failing },
  /** One claim, calls that are lost and come late, and no end of anything. */
  calm,
  sockets: { ...calm, gates: "sockets", kills: 1, failures: failing },
  failures: { ...calm, silence: false, failures: failing },
  copies: { ...calm, silence: false, copies: 1 },
  kills: { ...calm, onTheWay: 2, kills: 1, failures: failing },
  "two claims": { ...calm, silence: false, claims: 2 },
  "late orders": { ...calm, silence: false, lateOrders: 2 },
  "gates that end": { ...calm, silence: false, gateDeaths: 1, onTheWay: 2 },
  overtaking: { ...calm, overtakings: 1 },
  "overtaking of gates that end": { ...calm, overtakings: 1, gateDeaths: 1 },
  "overtaking and two claims": { ...calm, gates: "sockets", overtakings: 1, claims: 2 },
  "overtaking at sockets": { ...calm, gates: "sockets", kills: 1, overtakings: 1 },
} as const satisfies Readonly<Record<string, OneVolumeOptions>>;

export type BoundsName = keyof typeof bounds;

/** The bounds whose every state `npm run model` sees. */
export const exhausted: readonly BoundsName[] = [
  "calm",
  "sockets",
  "failures",
  "copies",
  "late orders",
  "gates that end",
  "two claims",
  "overtaking at sockets",
];
