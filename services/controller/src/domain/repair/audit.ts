/** What a person overrode, as it is kept for ever. No values of secrets, contexts or parameters. */
export interface AuditEntry {
  /** The RPC, for example `AbandonClaim`. */
  readonly verb: string;
  readonly who: string;
  readonly reason: string;
  readonly evidence: string;
  /** The words that the caller repeated. */
  readonly confirmed: string;
  readonly effects: readonly string[];
  readonly risks: readonly string[];
  readonly requestId: string;
  readonly traceId: string;
  readonly subject: AuditSubject;
}

/** What it was about; what does not apply is left out. */
export interface AuditSubject {
  readonly namespace?: string;
  readonly volume?: string;
  readonly volumeUid?: string;
  readonly plugin?: string;
  readonly externalId?: string;
  readonly node?: string;
  /** Of the node. */
  readonly life?: string;
  readonly workload?: string;
  readonly claimUid?: string;
  readonly orphan?: string;
  /** And its life. */
  readonly controller?: string;
  /** Whose grant it is. */
  readonly scheduler?: string;
  /** Its serial number, or the name in it. */
  readonly certificate?: string;
  /** Of the store. */
  readonly format?: string;
}

export interface AuditRecord extends AuditEntry {
  readonly id: string;
  readonly at: number;
  /** Of the record that it changed. */
  readonly revisionBefore: number;
}

/** An entry that is stored in the same step as the change that it speaks of. */
export interface AuditedAs {
  readonly id: string;
  readonly entry: AuditEntry;
}

/** Whether what was done before is about everything that is asked now: the same request about something else is no repeat. */
export const isAbout = (done: AuditSubject, asked: AuditSubject): boolean =>
  Object.entries(asked).every(([field, value]) => done[field as keyof AuditSubject] === value);
