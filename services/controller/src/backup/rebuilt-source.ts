/** What a rebuild found, as a backup that can be imported. */
import { readableFormats } from "../domain/store-format.ts";
import type { PlacedRecord, RecordWrite } from "../domain/store-types.ts";
import type { ExportSource } from "../store/export-source.ts";

export interface RebuiltStore {
  readonly clusterUid: string;
  /** The highest that any agent has seen: an import goes above it. */
  readonly gen: number;
  /** The nodes as they registered, and what is kept of their plugins, among other records. */
  readonly beside: () => AsyncIterable<PlacedRecord>;
  readonly volumes: readonly RecordWrite[];
}

export const rebuiltSource = ({ clusterUid, gen, beside, volumes }: RebuiltStore): ExportSource => {
  const identity = { clusterUid, gen, schema: readableFormats.newest };
  return {
    identity,
    async *records() {
      for await (const record of beside()) if (record.ref.kind === "node" || record.ref.kind === "plugin") yield record;
      for (const { ref, body, indexes, due } of volumes) yield { ref, body: body ?? "", indexes, due };
    },
    identityNow: async () => identity,
    close: async () => undefined,
  };
};
