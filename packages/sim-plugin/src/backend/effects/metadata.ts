import { type BlockMetadata, BlockMetadataType } from "@holdfast/shared/gen/csi/v1/csi";
import { RefusedError } from "../codes.ts";
import { hashOf } from "../ids.ts";
import type { SimSnapshot } from "../model.ts";
import type { EffectContext, Effects } from "./effect.ts";

const blockSize = 1024n * 1024n;
/** Enough for several messages, little enough for a test of a 16 TiB volume. */
const maxBlocks = 256;
const defaultPerMessage = 64;

const snapshotOf = (id: string, { state }: EffectContext): SimSnapshot => {
  const snapshot = state.snapshots.get(id);
  if (snapshot === undefined) throw new RefusedError("NOT_FOUND", `there is no snapshot ${id}`);
  return snapshot;
};

/** Simulated volumes hold no data, so a snapshot's allocated blocks are drawn from its id: the same at each asking. */
const allocated = (snapshot: SimSnapshot): bigint[] => {
  const bits = hashOf(snapshot.id);
  const count = Number(snapshot.size / blockSize > BigInt(maxBlocks) ? BigInt(maxBlocks) : snapshot.size / blockSize);
  return Array.from({ length: count }, (_, index) => index)
    .filter((index) => Number.parseInt(bits[index % bits.length] ?? "0", 16) % 2 === 0)
    .map((index) => BigInt(index) * blockSize);
};

interface Window {
  readonly startingOffset: bigint;
  readonly maxResults: number;
}

const messages = (offsets: readonly bigint[], capacity: bigint, { startingOffset, maxResults }: Window) => {
  if (startingOffset < 0n || startingOffset >= capacity)
    throw new RefusedError(
      "OUT_OF_RANGE",
      `starting_offset ${startingOffset} lies outside the ${capacity} bytes of the volume`,
    );
  const blocks: BlockMetadata[] = offsets
    .filter((offset) => offset + blockSize > startingOffset)
    .map((byteOffset) => ({ byteOffset, sizeBytes: blockSize }));
  const size = maxResults > 0 ? Math.min(maxResults, defaultPerMessage) : defaultPerMessage;
  const chunks = Array.from({ length: Math.ceil(blocks.length / size) }, (_, index) =>
    blocks.slice(index * size, (index + 1) * size),
  );
  return (chunks.length === 0 ? [[]] : chunks).map((blockMetadata) => ({
    blockMetadataType: BlockMetadataType.FIXED_LENGTH,
    volumeCapacityBytes: capacity,
    blockMetadata,
  }));
};

export const metadataEffects: Effects<"GetMetadataAllocated" | "GetMetadataDelta"> = {
  GetMetadataAllocated: (request, context) => {
    const snapshot = snapshotOf(request.snapshotId, context);
    return messages(allocated(snapshot), snapshot.size, request);
  },
  GetMetadataDelta: (request, context) => {
    const base = snapshotOf(request.baseSnapshotId, context);
    const target = snapshotOf(request.targetSnapshotId, context);
    if (base.source !== target.source)
      throw new RefusedError("INVALID_ARGUMENT", `snapshots ${base.id} and ${target.id} are of different volumes`);
    const before = new Set(allocated(base));
    const after = allocated(target);
    return messages(
      after.filter((offset) => !before.has(offset)),
      target.size,
      request,
    );
  },
};
