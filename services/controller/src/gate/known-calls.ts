import type { CallBar, CallSite } from "../domain/open-call.ts";
import { pagesOf } from "../records/pages-of.ts";
import type { CutRecords } from "../records/snapshot-records.ts";
import type { VolumeRecords } from "../records/volume/volume-records.ts";

interface Calling {
  readonly intent?: Pick<CallSite, "opId">;
  readonly bars: readonly Pick<CallBar, "opId" | "asked">[];
}

const pageSize = 500;

const callsOf = ({ intent, bars }: Calling): readonly string[] => [
  ...(intent === undefined ? [] : [intent.opId]),
  ...bars.flatMap(({ opId, asked }) => [opId, ...(asked === undefined ? [] : [asked.opId])]),
];

/** The names of all calls that a record accounts for: nothing of a subject goes on beside one of these. */
export const knownCalls = async (
  records: Pick<VolumeRecords, "list">,
  cuts: Pick<CutRecords, "list">,
): Promise<ReadonlySet<string>> => {
  const known = new Set<string>();
  const take = (record: Calling): void => {
    for (const call of callsOf(record)) known.add(call);
  };
  const volumes = pagesOf((after) => records.list("volume-unsettled", "all", { after, limit: pageSize }));
  for await (const page of volumes) for (const { volume } of page.volumes) take(volume);
  for (const index of ["snapshot-unsettled", "group-unsettled"] as const) {
    const pages = pagesOf((after) => cuts.list(index, "all", { after, limit: pageSize }));
    for await (const page of pages) for (const { record } of page.cuts) take(record);
  }
  return known;
};
