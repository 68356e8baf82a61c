/**
 * The end of an upgrade: from then on records may look as the newest release writes them.
 *
 * U1 The format is not raised while a controller on the roster cannot read it: the roster that was judged is the one that the commit
 * finds. U2 The word of the person is stored in the same commit, or neither is. U3 Finished twice is finished once.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { onRecordMs, shutOutBy } from "../../domain/controller-roster.ts";
import { formatsText, type StoreFormats } from "../../domain/store-format.ts";
import type { Store } from "../../ports.ts";
import type { AuditRecords } from "../../records/audit-records.ts";
import { type RosterRecords, type RosterView, rosterBusy } from "../../records/roster-records.ts";
import { repairNotApplicable } from "../repair/repair-errors.ts";
import { auditEntry, doneBefore, type Judgement, requireConfirmed, wouldBe } from "../repair/repair-verb.ts";
import { checkRepair } from "../repair/validate-repair.ts";
import { refuse } from "../volume/validate-volume.ts";
import type { UpgradeCommands } from "./upgrade-model.ts";

export interface UpgradeDeps {
  readonly roster: Pick<RosterRecords, "read" | "raise">;
  readonly audit: Pick<AuditRecords, "newId" | "ofRequest" | "get">;
  readonly store: Pick<Store, "identity">;
  /** What this release reads. */
  readonly formats: StoreFormats;
  readonly clock: Pick<Clock, "now">;
}

const verb = "FinishUpgrade";
const rounds = 12;

const shutsOut = (view: RosterView, format: number, now: number): HoldfastError | undefined => {
  const behind = shutOutBy(view.controllers, format);
  if (behind.length === 0) return undefined;
  const named = behind.map(({ id, version, formats, seenAt }) => {
    const minutes = Math.max(0, Math.round((now - seenAt) / 60_000));
    return `${id} (${version}) reads ${formatsText(formats)}, seen ${minutes}m ago`;
  });
  return new HoldfastError({
    kind: "precondition",
    reason: "UPGRADE_BLOCKED",
    message: `format ${format} cannot be read by every controller on record: ${named.join("; ")}. Start the newer release there; a controller that is gone for good is off the record ${onRecordMs / 60_000}m after it was seen last`,
    metadata: { format: String(format), controllers: behind.map(({ id }) => id).join() },
  });
};

export const createUpgradeCommands = (deps: UpgradeDeps): UpgradeCommands => {
  const { roster, audit, store, formats, clock } = deps;
  const { newest } = formats;

  const judge = (view: RosterView, format: number): Judgement => {
    if (format >= newest)
      throw repairNotApplicable(
        `the format of the store`,
        `${format}, the newest that this controller reads`,
        "nothing is left to be finished",
        { format: String(format) },
      );
    const refusal = shutsOut(view, newest, clock.now());
    if (refusal !== undefined) throw refusal; // U1
    return {
      effects: [
        `the store has format ${newest} in place of ${format}; records are written so as they change`,
        `a controller that does not read format ${newest} writes nothing to the store any more, and does not start on it`,
      ],
      risks: [
        `there is no way back to a release that does not read format ${newest}, but by a backup from before`,
        "a controller of a release from before there was a roster is on no record: it stops granting within ten seconds",
      ],
      confirmWith: `every controller of this cell reads format ${newest}, and a backup from before is kept`,
      subject: { format: String(newest) },
    };
  };

  return {
    async status() {
      const [{ controllers }, { format }] = [await roster.read(), await store.identity()];
      return { format, newest, controllers };
    },

    async finish(input, caller) {
      refuse(checkRepair(input));
      const subject = { format: String(newest) };
      for (let round = 0; round < rounds; round += 1) {
        const before = input.dryRun ? undefined : await doneBefore(audit, verb, input.requestId, subject);
        if (before !== undefined) return before; // U3
        // The roster first: whoever raises the format writes it too.
        const view = await roster.read();
        const judgement = judge(view, (await store.identity()).format);
        if (input.dryRun) return wouldBe(judgement);
        requireConfirmed(judgement, input);
        const id = audit.newId(clock.now());
        const entry = auditEntry(verb, input, caller, judgement);
        const raised = await roster.raise(newest, view, { id, entry }); // U1, U2
        // An answer that was lost: the word tells.
        if (!raised && (await audit.get(id)) === undefined) continue;
        const { effects, risks } = judgement;
        return { dryRun: false, effects, risks, auditId: id, confirmWith: "" };
      }
      throw rosterBusy();
    },
  };
};
