import { throwIfAborted } from "@holdfast/shared/async/signals";
import { DriverError } from "../domain/driver-error.ts";
import { type Extent, inPieces, wholeBlocks } from "../domain/extents.ts";
import { nameOf } from "../domain/name-of.ts";
import type { SnapshotRecord } from "../domain/records.ts";
import type { Block, MetadataOperations } from "../operations.ts";
import type { ControllerParts } from "./controller-parts.ts";
import { mustBeSound, pathsOf } from "./sound-image.ts";

/** Compared at once: small enough that a reader who has left is noticed soon. */
const pieceBytes = 8n << 20n;
/** Of one message when the caller leaves it to us. */
const usualResults = 1024;

export function createMetadataOperations({ host, cut }: Pick<ControllerParts, "host" | "cut">): MetadataOperations {
  const imageOf = async (id: string): Promise<SnapshotRecord> => {
    const snapshot = cut.known(id);
    if (snapshot.type !== "image")
      throw new DriverError(
        "FAILED_PRECONDITION",
        `${nameOf(snapshot)} is of a directory, which has no blocks: there is no metadata of it; back up all of its files instead`,
      );
    await mustBeSound(host, snapshot);
    return snapshot;
  };

  /** Whole blocks with data, "the first range may begin before" the offset: it begins at the block that the offset is in. */
  const rangesOf = async (
    snapshots: readonly SnapshotRecord[],
    from: bigint,
    end: bigint,
    signal: AbortSignal,
  ): Promise<readonly Extent[]> => {
    const extents: Extent[] = [];
    for (const snapshot of snapshots)
      extents.push(...(await host.images.extents(pathsOf(host, snapshot).image, signal)));
    return wholeBlocks(extents, from, end);
  };

  async function* differing(
    base: SnapshotRecord,
    target: SnapshotRecord,
    ranges: readonly Extent[],
    signal: AbortSignal,
  ): AsyncGenerator<Extent> {
    try {
      for (const piece of inPieces(ranges, pieceBytes))
        yield* await host.blocks.differing(pathsOf(host, base).image, pathsOf(host, target).image, piece, signal);
    } catch (error) {
      throwIfAborted(signal);
      // A stream holds up no deletion: it ends with what has become of its snapshots.
      for (const { id } of [base, target]) cut.known(id);
      throw error;
    }
  }

  return {
    allocated: async ({ snapshotId, startingOffset, maxResults }, signal) => {
      const snapshot = await imageOf(snapshotId);
      const { sizeBytes } = snapshot;
      mustBeInside(snapshot, startingOffset);
      const ranges = await rangesOf([snapshot], startingOffset, sizeBytes, signal);
      return { capacityBytes: sizeBytes, blocks: inMessages(ranges, maxResults, signal) };
    },

    delta: async ({ baseSnapshotId, targetSnapshotId, startingOffset, maxResults }, signal) => {
      const [base, target] = [await imageOf(baseSnapshotId), await imageOf(targetSnapshotId)];
      if (base.volumeId !== target.volumeId)
        throw new DriverError(
          "INVALID_ARGUMENT",
          `${nameOf(base)} is of volume ${base.volumeId} and ${nameOf(target)} of volume ${target.volumeId}; both have to be of one volume`,
        );
      mustBeInside(target, startingOffset);
      // Where neither has data both read as zeros.
      const ranges = await rangesOf([base, target], startingOffset, target.sizeBytes, signal);
      const found = differing(base, target, ranges, signal);
      return { capacityBytes: target.sizeBytes, blocks: inMessages(found, maxResults, signal) };
    },
  };
}

function mustBeInside(snapshot: SnapshotRecord, offset: bigint): void {
  if (offset >= 0n && offset <= snapshot.sizeBytes) return;
  throw new DriverError(
    "OUT_OF_RANGE",
    `starting_offset ${offset} is outside of ${nameOf(snapshot)}, which has ${snapshot.sizeBytes} bytes`,
  );
}

/** Neighbours become one range; a message has `maxResults` of them, the last one what is left. */
async function* inMessages(
  ranges: AsyncIterable<Extent> | Iterable<Extent>,
  maxResults: number,
  signal: AbortSignal,
): AsyncGenerator<readonly Block[]> {
  const most = maxResults > 0 ? maxResults : usualResults;
  let ready: Block[] = [];
  let open: Block | undefined;
  for await (const { offset, length } of ranges) {
    throwIfAborted(signal);
    if (open !== undefined && open.offset + open.size === offset) {
      open = { offset: open.offset, size: open.size + length };
      continue;
    }
    if (open !== undefined) ready.push(open);
    open = { offset, size: length };
    if (ready.length === most) {
      yield ready;
      ready = [];
    }
  }
  if (open !== undefined) ready.push(open);
  if (ready.length > 0) yield ready;
}
