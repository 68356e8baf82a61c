import type { Blocked } from "./outcome.ts";
import type { VolumeRecord } from "./volume/volume.ts";

const waitsForCall: ReadonlySet<string> = new Set(["PLUGIN_HANGS", "CALL_MAY_BE_OPEN"]);

/** A call that may have been open is over by a person's word: what waited for it says so no more. */
export const withoutCallBlock = <T extends { readonly blocked?: Blocked }>(part: T): T => {
  const { blocked, ...rest } = part;
  return blocked !== undefined && waitsForCall.has(blocked.reason) ? (rest as T) : part;
};

const ofEach = <T extends { readonly blocked?: Blocked }>(parts: Readonly<Record<string, T>>): Record<string, T> =>
  Object.fromEntries(Object.entries(parts).map(([key, part]) => [key, withoutCallBlock(part)]));

/** The same of all that waits for the one call of a volume. */
export const withoutCallBlocks = (volume: VolumeRecord): VolumeRecord => {
  const { claims, attachments, expansion, modification } = volume;
  const owed = Object.entries(attachments).map(([node, attachment]) => [
    node,
    attachment.owed === undefined ? attachment : { ...attachment, owed: withoutCallBlock(attachment.owed) },
  ]);
  return withoutCallBlock({
    ...volume,
    claims: ofEach(claims),
    attachments: Object.fromEntries(owed),
    ...(expansion === undefined ? {} : { expansion: withoutCallBlock(expansion) }),
    ...(modification === undefined ? {} : { modification: withoutCallBlock(modification) }),
  });
};
