import type { VersionedVolume } from "../record-cache.ts";
import type { VolumeRecords } from "./volume-records.ts";

const pageSize = 200;

/** Every volume with a claim, an attachment or a bar on the node, page by page; `whole` as with `list`. */
export const volumesOnNode = async function* (
  records: Pick<VolumeRecords, "list">,
  node: string,
  whole?: true,
): AsyncGenerator<VersionedVolume> {
  let after: string | undefined;
  do {
    const page = await records.list("claim-node", node, {
      after,
      limit: pageSize,
      ...(whole === undefined ? {} : { whole }),
    });
    yield* page.volumes;
    after = page.next;
  } while (after !== undefined);
};
