/** Grants of schedulers as operators set them. The word of the person is stored by the commit that changes the grant, or neither is. */
import type { Clock } from "@holdfast/shared/async/clock";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import {
  type AccessGrant,
  type AccessGrantRecord,
  accessGrantOf,
  checkAccessGrant,
  checkScheduler,
} from "../../domain/access/access-grant.ts";
import type { Violation } from "../../domain/limits.ts";
import { formatWithGrants } from "../../domain/store-format.ts";
import type { Store } from "../../ports.ts";
import type { AccessGrants } from "../../records/access/access-grants.ts";
import type { AuditRecords } from "../../records/audit-records.ts";
import type { Caller, Page, PageInput } from "../model.ts";
import { auditEntry, doneBefore } from "../repair/repair-verb.ts";
import { checkRepair } from "../repair/validate-repair.ts";
import { refuse } from "../volume/validate-volume.ts";
import { readTicketKeys, ticketKeyId } from "./ticket-key.ts";

export interface DeleteGrantInput {
  readonly scheduler: string;
  readonly reason: string;
  readonly requestId: string;
}

export interface SetGrantInput extends DeleteGrantInput, AccessGrant {}

export interface AccessCommands {
  setGrant(input: SetGrantInput, caller: Caller): Promise<AccessGrantRecord>;
  getGrant(scheduler: string): Promise<AccessGrantRecord>;
  listGrants(page: PageInput): Promise<Page<AccessGrantRecord>>;
  /** False: it had none. */
  deleteGrant(input: DeleteGrantInput, caller: Caller): Promise<boolean>;
}

export interface AccessCommandDeps {
  readonly accessGrants: Pick<AccessGrants, "get" | "list" | "change">;
  readonly audit: Pick<AuditRecords, "newId" | "ofRequest">;
  readonly store: Pick<Store, "format">;
  readonly clock: Pick<Clock, "now">;
}

const checkAsked = (input: DeleteGrantInput): readonly Violation[] =>
  checkRepair({ reason: input.reason, requestId: input.requestId, dryRun: false, confirm: "" });

const listed = (names: readonly string[]): string => (names.length === 0 ? "none" : names.join(", "));

const words = ({ scheduler, namespaces, plugins, secretRoots, ticketKeys }: Required<AccessGrant>): string =>
  `scheduler ${scheduler} may use the namespaces ${listed(namespaces)}, the plugins ${listed(plugins)}, the roots of secrets ${listed(secretRoots)}, and signs tickets with the keys ${listed(ticketKeys.map(ticketKeyId))}`;

const same = (a: AccessGrant, b: AccessGrant): boolean =>
  JSON.stringify(accessGrantOf(a)) === JSON.stringify(accessGrantOf(b));

export const createAccessCommands = ({ accessGrants, audit, store, clock }: AccessCommandDeps): AccessCommands => {
  const audited = (verb: string, input: DeleteGrantInput, caller: Caller, effect: string) => ({
    id: audit.newId(clock.now()),
    entry: auditEntry(verb, { ...input, dryRun: false, confirm: "" }, caller, {
      effects: [effect],
      risks: [],
      confirmWith: "",
      subject: { scheduler: input.scheduler },
    }),
  });

  const getGrant = async (scheduler: string): Promise<AccessGrantRecord> => {
    refuse(checkScheduler(scheduler));
    const found = await accessGrants.get(scheduler);
    if (found === undefined) throw grantNotFound(scheduler);
    return found;
  };

  return {
    async setGrant(input, caller) {
      const { keys: ticketKeys, violations } = readTicketKeys(input.ticketKeys ?? []);
      refuse([...checkAccessGrant(input), ...violations, ...checkAsked(input)]);
      const { scheduler, reason, requestId } = input;
      if (store.format() < formatWithGrants) throw grantNeedsUpgrade(scheduler, store.format());
      if ((await doneBefore(audit, "SetGrant", requestId, { scheduler })) === undefined) {
        const grant = accessGrantOf({ ...input, ticketKeys });
        const changedBy = { who: caller.who, why: `SetGrant: ${reason}` };
        const decide = (before: AccessGrantRecord | undefined): AccessGrantRecord | undefined => {
          if (before !== undefined && same(before, grant)) return undefined;
          const now = clock.now();
          return { ...grant, createdAt: before?.createdAt ?? now, updatedAt: now, changedBy };
        };
        await accessGrants.change(scheduler, decide, audited("SetGrant", input, caller, words(grant)));
      }
      return await getGrant(scheduler);
    },
    getGrant,
    async listGrants({ after, size }) {
      const { grants, next } = await accessGrants.list({ after, limit: size });
      return { items: grants, next };
    },
    async deleteGrant(input, caller) {
      refuse([...checkScheduler(input.scheduler), ...checkAsked(input)]);
      const { scheduler, requestId } = input;
      if ((await doneBefore(audit, "DeleteGrant", requestId, { scheduler })) !== undefined) return true;
      const word = audited("DeleteGrant", input, caller, `scheduler ${scheduler} may do nothing`);
      return await accessGrants.change(scheduler, () => null, word);
    },
  };
};

const grantNotFound = (scheduler: string): HoldfastError =>
  new HoldfastError({
    kind: "not_found",
    reason: "GRANT_NOT_FOUND",
    message: `scheduler ${scheduler} has no grant: it may do nothing; holdfast grant set ${scheduler} makes one`,
    metadata: { scheduler },
  });

const grantNeedsUpgrade = (scheduler: string, format: number): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "UPGRADE_UNFINISHED",
    message: `scheduler ${scheduler} gets no grant: the store has format ${format}, so that a controller of an earlier release may use it, which heeds no grants; end the upgrade first: holdfast upgrade finish`,
    metadata: { scheduler, format: String(format), needed: String(formatWithGrants) },
  });
