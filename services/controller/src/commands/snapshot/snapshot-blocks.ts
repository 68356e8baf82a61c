/**
 * The blocks of a snapshot, passed through from the plugin as they come.
 *
 * B1 No message is asked for before the one before it was taken: who reads slowly holds the plugin back, and nothing piles up here.
 * B2 A stream that breaks because its plugin went away is opened again at the end of the last block, as long as it gets on.
 * B3 A stream that ends has said everything; every other end is an error.
 */
import { HoldfastError, invalidArgument, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { SnapshotRecord } from "../../domain/snapshot/snapshot.ts";
import type { BlockMetadata, BlockQuestion } from "../../domain/snapshot/snapshot-types.ts";
import { volumeKey } from "../../domain/volume/volume.ts";
import type { CommandDeps } from "../command-deps.ts";
import { pluginCannotCut, pluginNotReady, snapshotNotFound, snapshotNotReady } from "./snapshot-errors.ts";
import { findSnapshot } from "./snapshot-queries.ts";
import type { BlocksInput, SnapshotCommands } from "./snapshot-types.ts";
import { validateBlocks } from "./validate-snapshot.ts";

type Deps = Pick<CommandDeps, "plugins" | "cuts" | "clock">;

/** Tries in a row that brought nothing new. */
const patience = 3;
const pauseMs = 500;

const usable = async ({ cuts }: Deps, namespace: string, id: string): Promise<SnapshotRecord> => {
  const found = await findSnapshot(cuts, { namespace, id });
  if (found === undefined) throw snapshotNotFound({ namespace, id });
  if (found.record.state !== "READY" || found.record.goal === "absent") throw snapshotNotReady(found.record);
  return found.record;
};

const questionOf = async (deps: Deps, input: BlocksInput): Promise<BlockQuestion> => {
  const target = await usable(deps, input.namespace, input.target);
  const base = input.base === "" ? undefined : await usable(deps, input.namespace, input.base);
  if (base !== undefined && (base.plugin !== target.plugin || base.externalVolumeId !== target.externalVolumeId))
    throw invalidArgument([
      {
        field: "base_snapshot",
        description: `is of volume ${base.volume}, and the target of volume ${target.volume}: only snapshots of one volume can be compared`,
      },
    ]);
  const facts = deps.plugins.snapshotFacts(target.plugin);
  if (facts.metadata === "no")
    throw pluginCannotCut(target.plugin, "plugin", "tell which blocks of a snapshot hold data");
  if (!facts.ready) throw pluginNotReady(target.plugin, facts.reason);
  const { startingOffset, maxResults, totalMs } = input;
  return { target, startingOffset, maxResults, totalMs, ...(base === undefined ? {} : { base }) };
};

/** Whether the plugin went away under the stream; anything else it said is its answer. */
const wentAway = (error: unknown): boolean =>
  isHoldfastError(error) && error.reason === "STREAM_BROKEN" && error.kind === "unavailable";

const broken = (snapshot: SnapshotRecord, offset: bigint, why: string): HoldfastError =>
  new HoldfastError({
    kind: "internal",
    reason: "STREAM_BROKEN",
    message: `plugin ${snapshot.plugin} answered about snapshot ${volumeKey(snapshot)} ${why}; ask again from offset ${offset}`,
    metadata: { plugin: snapshot.plugin, code: "INTERNAL" },
  });

/** "byte_offset: in increasing order, not overlapping": what comes out of order could not be resumed. */
const endOf = (target: SnapshotRecord, { blocks }: BlockMetadata, from: bigint, first: boolean): bigint => {
  let end = from;
  for (const [i, { offset, size }] of blocks.entries()) {
    // The block that the starting offset lies in may begin before it.
    const overlaps = first && i === 0 ? offset + size <= from && size > 0n : offset < end;
    if (overlaps) throw broken(target, end, `with a block at ${offset} after one that ends at ${end}`);
    end = offset + size;
  }
  return end;
};

export const blocksQuery = (deps: Deps): SnapshotCommands["blocks"] =>
  async function* (input, signal) {
    validateBlocks(input);
    const { plugins, clock } = deps;
    const question = await questionOf(deps, input);
    const until = clock.monotonic() + input.totalMs;
    let offset = input.startingOffset;
    for (let tries = 0; ; ) {
      let first = true;
      try {
        const totalMs = Math.max(1, until - clock.monotonic());
        for await (const message of plugins.blocks({ ...question, startingOffset: offset, totalMs }, signal)) {
          const end = endOf(question.target, message, offset, first);
          if (end > offset) tries = 0;
          first &&= message.blocks.length === 0;
          offset = end;
          yield message; // B1
        }
        return; // B3
      } catch (error) {
        signal.throwIfAborted();
        if (!wentAway(error) || tries >= patience) throw error;
        tries += 1; // B2
        await clock.sleep(pauseMs * 2 ** (tries - 1), signal);
      }
    }
  };
