import type { PlacedRecord } from "../domain/store-types.ts";

export interface ExportIdentity {
  readonly clusterUid: string;
  readonly schema: number;
  readonly gen: number;
}

/** A store as a backup reads it. */
export interface ExportSource {
  readonly identity: ExportIdentity;
  records(): AsyncIterable<PlacedRecord>;
  /** Whose data it holds now, and in which generation; undefined: nobody's, it was emptied. */
  identityNow(): Promise<ExportIdentity | undefined>;
  close(): Promise<void>;
}
