import { callBar } from "./bar.ts";
import type { Moment } from "./moment.ts";
import type { Intent, VolumeRecord } from "./volume/volume.ts";

/** The longest time that any call is given: so long one without an answer may still do its work, behind whatever came after it. */
export const lateCallMs = 5 * 60_000;

/**
 * May an attempt before this one have done its work without our knowing? One whose answer was not certain, or one of a life that
 * ended before it could store an answer: the intent is durable before its call leaves (I4), so an intent of another issuer may have
 * been acted on.
 */
export const isDoubtful = (intent: Pick<Intent, "issuer" | "uncertainSince">, at: Moment): boolean =>
  intent.uncertainSince !== undefined || intent.issuer !== at.issuer;

/** An earlier attempt of the intent was answered, and nobody could store what: it counts as one without an answer. */
export const doubted = (volume: VolumeRecord, at: Moment): VolumeRecord =>
  volume.intent === undefined || volume.intent.uncertainSince !== undefined
    ? volume
    : { ...volume, intent: { ...volume.intent, uncertainSince: at.now } };

/**
 * What it is made from is needed until no call of the create can follow: one in doubt is repeated word for word before its volume goes, one
 * that was overtaken before its bar is lifted, and a plugin that no longer finds the source says so before it looks for the volume.
 */
export const needsSource = (volume: VolumeRecord): boolean =>
  volume.state === "CREATING" ||
  (volume.state === "FAILED" && volume.intent?.op === "create") ||
  callBar(volume, "delete") !== undefined;
