import { setImmediate } from "node:timers";
import { type Epoch, showEpoch } from "@holdfast/model/epoch";
import type { Logger } from "@holdfast/shared/log/logger";
import type { VolumeRef } from "../domain/types.ts";
import { namesOf } from "./order-facts.ts";

/** A line about an order that has ended, written once its answer is on its way: the journal has it, and nobody waits for the line. */
export function tellEnd(
  log: Logger,
  what: "claim published" | "claim ended" | "claim released",
  ref: VolumeRef,
  { claimUid, epoch }: { readonly claimUid: string; readonly epoch: Epoch },
): void {
  setImmediate(() => log.info(what, { ...namesOf(ref), claim: claimUid, epoch: showEpoch(epoch) }));
}
