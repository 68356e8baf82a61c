import type { PlacedRecord } from "../domain/store-types.ts";

/** A store as a backup reads it. */
export interface ExportSource {
  readonly identity: { readonly clusterUid: string; readonly schema: number; readonly gen: number };
  records(): AsyncIterable<PlacedRecord>;
  close(): Promise<void>;
}
