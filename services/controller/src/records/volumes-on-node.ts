import { pagesOf } from "./pages-of.ts";
import type { VersionedVolume } from "./record-cache.ts";
import type { VolumeRecords } from "./volume-records.ts";

const pageSize = 200;

/** Every volume with a claim, an attachment or a bar on the node, page by page; `whole` as with `list`. */
export const volumesOnNode = async function* (
  records: Pick<VolumeRecords, "list">,
  node: string,
  whole?: true,
): AsyncGenerator<VersionedVolume> {
  const pages = pagesOf((after) => records.list("claim-node", node, { after, limit: pageSize, whole }));
  for await (const { volumes } of pages) yield* volumes;
};
