/** How far each search goes. A bound is of the environment alone: what the product may do is not bounded. */
import type { OneVolumeOptions } from "./volume/model-options.ts";

/** Failures of a plugin that say nothing for certain, with and without their effect, and one that refuses. */
const failing: OneVolumeOptions["failures"] = [
  { reply: "INTERNAL", effect: true },
  { reply: "INTERNAL", effect: false },
  { reply: "INVALID_ARGUMENT", effect: false, of: "ControllerPublishVolume" },
];
const lost: OneVolumeOptions["failures"] = [
  { reply: "INTERNAL", effect: true },
  { reply: "INTERNAL", effect: false },
];
const refused: OneVolumeOptions["failures"] = [
  { reply: "INVALID_ARGUMENT", effect: false },
  { reply: "FAILED_PRECONDITION", effect: false },
  { reply: "KNOWN", effect: false, here: true },
  { reply: "UNFIT", effect: false, here: true },
];
const crowded = { reply: "CROWDED", effect: false, here: true } as const;
const noRoom = { reply: "RESOURCE_EXHAUSTED", effect: false } as const;
const full: OneVolumeOptions["failures"] = [
  { reply: "RESOURCE_EXHAUSTED", effect: true },
  noRoom,
  crowded,
  { reply: "BROKEN", effect: false, here: true },
];
const wrong = { reply: "WRONG", effect: true } as const;
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
const ofValidate: OneVolumeOptions["failures"] = [...lost, ...refused].map((failure) => ({
  ...failure,
  of: "ValidateVolumeCapabilities",
}));
const unclaimed: OneVolumeOptions = { ...calm, gates: "sockets", silence: false, claims: 0, mishaps: 2 };
const overtaking: OneVolumeOptions = { ...calm, gates: "sockets", claims: 0, kills: 1, overtakings: 1 };

export const bounds = {
  /** Two of the three of `npm test`. */
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
  "shares that move": { ...calm, gates: "sockets", overtakings: 1, shares: true },
  "shares of a detach": { ...calm, gates: "sockets", claims: 0, overtakings: 1, shares: true, volume: "held" },
  "shares of a create": { ...calm, gates: "sockets", claims: 0, overtakings: 1, shares: true, volume: "asked for" },
  "a claim behind a bar": { ...calm, gates: "sockets", silence: false, volume: "barred" },
  "a bar whose gate has come back": { ...calm, silence: false, claims: 0, volume: "barred" },
  "overtaking of gates that end": { ...calm, overtakings: 1, gateDeaths: 1 },
  creating: { ...unclaimed, volume: "asked for", failures: [...lost, ...refused, { ...wrong, of: "CreateVolume" }] },
  placing: { ...unclaimed, volume: "placed", failures: [...lost, ...refused, noRoom, crowded] },
  registering: { ...unclaimed, kills: 1, mishaps: 3, volume: "registered", failures: ofValidate },
  expanding: { ...unclaimed, wish: "expand", wishes: 1, failures: [...lost, ...refused, { ...wrong, effect: false }] },
  modifying: { ...unclaimed, wish: "modify", wishes: 1, failures: [...lost, ...refused] },
  "attachments that are not shown": {
    ...unclaimed,
    volume: "held",
    unseen: 1,
    mishaps: 1,
    failures: [...lost, ...refused, ...full].map((failure) => ({ ...failure, of: "ControllerPublishVolume" })),
  },
  refusals: {
    ...calm,
    gates: "sockets",
    silence: false,
    failures: [...refused, ...full, { reply: "NOT_FOUND", effect: false, of: "ControllerUnpublishVolume" }],
  },
  "answers of agents": { ...calm, gates: "sockets", silence: false, unheard: 1, lostMounts: 1, timeouts: true },
  "creating and overtaking": { ...overtaking, volume: "asked for" },
  "expanding and overtaking": { ...overtaking, wish: "expand", wishes: 2 },
  "modifying and overtaking": { ...overtaking, wish: "modify", wishes: 2 },
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
  "creating",
  "placing",
  "registering",
  "expanding",
  "modifying",
  "attachments that are not shown",
  "refusals",
  "answers of agents",
  "overtaking at sockets",
  "a claim behind a bar",
  "a bar whose gate has come back",
  "shares of a detach",
  "shares of a create",
  "creating and overtaking",
  "expanding and overtaking",
  "modifying and overtaking",
];
