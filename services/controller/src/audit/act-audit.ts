/**
 * The word of what a person or a program asked for that has to be accounted for, on disk before anything is done.
 *
 * AA1 Before the effect a line is on disk, or, where the file cannot be written, a record is in the store; with neither nothing is done
 * (AUDIT_UNAVAILABLE). AA2 What was asked for and how it ended stand in two lines, so that an end that is missing is seen. AA3 The store keeps
 * what it is given for ever: while the file fails it takes a bounded number, and a read of the same secret for the same call once.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Clock } from "@holdfast/shared/async/clock";
import type { AuditFields } from "@holdfast/shared/audit/audit-chain";
import { type AuditTrail, AuditUnwritable } from "@holdfast/shared/audit/audit-trail";
import { HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { checkId } from "../domain/limits.ts";
import type { AuditEntry, AuditSubject } from "../domain/repair/audit.ts";
import type { AuditRecords } from "../records/audit-records.ts";

export type ActSubject = Readonly<Record<string, string>>;

export interface Act {
  /** For example `FenceNode`. */
  readonly verb: string;
  /** Of its service too: `/holdfast.v1.NodeService/FenceNode`. */
  readonly method: string;
  readonly who: string;
  /** Of the certificate that the caller came with. */
  readonly serial: string | undefined;
  readonly subject: ActSubject;
  readonly reason: string;
  /** The two lines of one call share it. */
  readonly request: string;
  readonly traceId: string | undefined;
}

export interface BegunAct {
  /** Whatever is audited within is named by the line of its end. */
  run<T>(work: () => Promise<T>): Promise<T>;
  /** `error`: the reason of an answer that is none. */
  end(outcome: {
    readonly code: string;
    readonly error: string | undefined;
    readonly result?: ActSubject;
  }): Promise<void>;
}

export interface SecretRead {
  readonly reference: string;
  readonly version: string;
  readonly namespace: string | undefined;
  readonly volume: string | undefined;
  /** The call that it is read for. */
  readonly method: string;
}

export interface ActAudit {
  /** Rejects with AUDIT_UNAVAILABLE (AA1). */
  begin(act: Act): Promise<BegunAct>;
  secretRead(read: SecretRead): Promise<void>;
  /** A record of the store is about to be written under this id. */
  noted(id: string): void;
}

export interface ActAuditOptions {
  readonly trail: Pick<AuditTrail, "commit">;
  /** Reads have their own: however many there are, they push no act out. */
  readonly reads: Pick<AuditTrail, "commit">;
  readonly records: Pick<AuditRecords, "newId" | "write" | "get">;
  /** This controller, as it calls itself to others. */
  readonly self: string;
  readonly clock: Clock;
  readonly traceId: () => string | undefined;
}

/** A disk that does not answer is one that cannot be written. */
const patienceMs = 5_000;
/** AA3 */
const mostInStore = 10_000;
const longest = 1_024;

const cut = (text: string): string => (text.length > longest ? `${text.slice(0, longest)}…` : text);

const saidOf = (subject: ActSubject): ActSubject =>
  Object.fromEntries(Object.entries(subject).flatMap(([field, value]) => (value === "" ? [] : [[field, cut(value)]])));

/** What the request says was not checked yet; the store indexes records by these two. */
const indexable = ({ namespace = "", volume = "" }: ActSubject): AuditSubject => ({
  ...(checkId("namespace", namespace).length === 0 ? { namespace } : {}),
  ...(checkId("volume", volume).length === 0 ? { volume } : {}),
});

const codeOf = (error: unknown): string => (error instanceof AuditUnwritable ? error.code : String(error));

const unavailable = (verb: string, file: unknown, store: unknown): HoldfastError => {
  const why = isHoldfastError(store) ? store.reason : String(store);
  return new HoldfastError({
    kind: "unavailable",
    reason: "AUDIT_UNAVAILABLE",
    message:
      `${verb}: nothing was done, as it can be written to the audit neither in its file (${codeOf(file)}) nor in the store (${why}); ` +
      "make room on the disk of HOLDFAST_AUDIT_DIR, or bring the store back, and repeat",
    metadata: { verb, file: codeOf(file), store: why },
    cause: store,
  });
};

export const createActAudit = ({ trail, reads, records, self, clock, traceId }: ActAuditOptions): ActAudit => {
  const current = new AsyncLocalStorage<string[]>();
  /** Since the file cannot be written. */
  let inStore = 0;
  const readsInStore = new Set<string>();

  const commit = async (to: Pick<AuditTrail, "commit">, fields: AuditFields): Promise<void> => {
    const late = Promise.withResolvers<never>();
    const cancel = clock.timer(patienceMs, () => late.reject(new AuditUnwritable("HOLDFAST_AUDIT_DIR", "ETIMEDOUT")));
    try {
      await Promise.race([to.commit(fields), late.promise]);
      inStore = 0;
      readsInStore.clear();
    } finally {
      cancel();
    }
  };

  const entryOf = (
    act: Pick<Act, "verb" | "who" | "reason" | "subject">,
    trace: string,
    effect: string,
  ): AuditEntry => ({
    verb: act.verb,
    who: act.who,
    reason: cut(act.reason),
    evidence: "",
    confirmed: "",
    effects: [effect],
    risks: [],
    // By its request an act is known as done; this record says that it was begun.
    requestId: "",
    traceId: trace,
    subject: indexable(act.subject),
  });

  const toStore = async (verb: string, file: unknown, entry: (why: string) => AuditEntry): Promise<void> => {
    try {
      if (inStore >= mostInStore) throw new Error(`it has taken ${mostInStore} for it`);
      const now = clock.now();
      await records.write(
        records.newId(now),
        entry(`while the audit file could not be written (${codeOf(file)})`),
        now,
      );
      inStore += 1;
    } catch (error) {
      throw unavailable(verb, file, error); // AA1
    }
  };

  /** What the store was given meanwhile; it may have refused, and then there is none. */
  const storedAs = async (
    ids: readonly string[],
  ): Promise<Readonly<Record<string, string | number | readonly string[]>>> => {
    const [id, ...others] = ids;
    if (id === undefined) return {};
    if (others.length > 0) return { audits: ids };
    const found = await records.get(id).catch(() => undefined);
    if (found === undefined) return {};
    const { revisionBefore } = found;
    const revisions = revisionBefore > 0 ? { before_rev: revisionBefore, after_rev: revisionBefore + 1 } : {};
    return { audit: id, ...revisions };
  };

  return {
    async begin(act) {
      const { verb, method, who, serial, request } = act;
      const subject = saidOf(act.subject);
      const common = { kind: "act", who, serial, method, subject, request: cut(request), trace: act.traceId };
      try {
        await commit(trail, { ...common, outcome: "begun", reason: cut(act.reason) });
      } catch (error) {
        const about = Object.entries(subject).map(([field, value]) => `${field} ${value}`);
        const effect = (why: string): string => `${[verb, ...about].join(", ")} was begun ${why}`;
        await toStore(verb, error, (why) => entryOf(act, act.traceId ?? "", effect(why)));
      }
      const ids: string[] = [];
      return {
        run: (work) => current.run(ids, work),
        async end({ code, error, result }) {
          const line: AuditFields = { ...(await storedAs(ids)), ...common, outcome: code, error, result };
          // With the kernel before the caller has its answer; nobody waits for the disk. A failure is counted and told there.
          commit(trail, line).catch(() => undefined);
        },
      };
    },

    async secretRead(read) {
      const { reference, version, namespace, volume, method } = read;
      const trace = traceId();
      try {
        await commit(reads, { kind: "secret", reference, version, namespace, volume, method, trace });
      } catch (error) {
        const key = JSON.stringify(read);
        if (readsInStore.has(key)) return;
        const act = {
          verb: "ReadSecret",
          who: self,
          reason: "",
          subject: { namespace: namespace ?? "", volume: volume ?? "" },
        };
        const effect = (why: string): string => `secret ${reference} (${version}) was read for ${method} ${why}`;
        await toStore(act.verb, error, (why) => entryOf(act, trace ?? "", effect(why)));
        readsInStore.add(key);
      }
    },

    noted: (id) => void current.getStore()?.push(id),
  };
};
