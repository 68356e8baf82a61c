import type { VolumeRecord } from "../volume/volume.ts";

/** A call or a permit waits for the commit: only a vetted store may take it (I8). */
export const grantsOrOffers = (before: VolumeRecord, after: VolumeRecord | null): boolean =>
  after !== null &&
  Object.values(after.claims).some(
    (c) => (c.state === "ATTACHING" || c.state === "OFFERED") && before.claims[c.uid]?.state !== c.state,
  );
