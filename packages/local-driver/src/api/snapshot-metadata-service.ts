import { BlockMetadataType, type SnapshotMetadataDefinition } from "@holdfast/shared/gen/csi/v1/csi";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import type { BlockStream, MetadataOperations } from "../operations.ts";
import type { Admit } from "./admit.ts";
import { fromBlocks } from "./convert-answer.ts";

export interface SnapshotMetadataParts {
  readonly metadata: MetadataOperations;
  readonly admit: Admit;
}

/** In one message; "0 leaves it to the plugin". A range takes 20 bytes at most, so a message stays far below a megabyte. */
const mostResults = 4096;
const resultsOf = (asked: number): number => (asked === 0 ? mostResults : Math.min(asked, mostResults));

/** Also an empty snapshot has its size to tell, so there is a first message whatever it holds. */
async function* messagesOf({ capacityBytes, blocks }: BlockStream) {
  const common = { blockMetadataType: BlockMetadataType.VARIABLE_LENGTH, volumeCapacityBytes: capacityBytes };
  let told = false;
  for await (const some of blocks) {
    told = true;
    yield { ...common, blockMetadata: fromBlocks(some) };
  }
  if (!told) yield { ...common, blockMetadata: [] };
}

export const createSnapshotMetadataService = ({
  metadata,
  admit,
}: SnapshotMetadataParts): Implementation<typeof SnapshotMetadataDefinition> => ({
  async *getMetadataAllocated(request, context) {
    const stream = await admit("GetMetadataAllocated", request, context, (signal) => {
      const { snapshotId, startingOffset, maxResults } = request;
      return metadata.allocated({ snapshotId, startingOffset, maxResults: resultsOf(maxResults) }, signal);
    });
    yield* messagesOf(stream);
  },

  async *getMetadataDelta(request, context) {
    const stream = await admit("GetMetadataDelta", request, context, (signal) => {
      const { baseSnapshotId, targetSnapshotId, startingOffset, maxResults } = request;
      return metadata.delta(
        { baseSnapshotId, targetSnapshotId, startingOffset, maxResults: resultsOf(maxResults) },
        signal,
      );
    });
    yield* messagesOf(stream);
  },
});
