/**
 * What the records of a store look like, by one number for all of them (docs/adr/0015-formats.md).
 *
 * Format 1: as of the releases before there was a second one. Format 2: a node's record without an address, as agents listen nowhere.
 * Format 3: records of volumes, snapshots and groups with bars, which earlier releases neither keep nor heed.
 * Format 4: quotas of namespaces, which earlier releases do not count for; volumes restored as a set, of which those do not take back
 * the others when one fails; pools of attach slots, which those do not compare; grants of schedulers, tokens of nodes and denied
 * certificates, of which those know no kind; claims whose permit may have left before they were offered, which those give up without a word
 * of the agent.
 */
export interface StoreFormats {
  readonly oldest: number;
  readonly newest: number;
}

/** What this release reads. It writes what the store's own format allows. */
export const readableFormats: StoreFormats = { oldest: 1, newest: 4 };

/** Calls are overtaken in a store of this format and of later ones. */
export const formatWithBars = 3;

/** A store of this format and of later ones may have quotas. */
export const formatWithQuotas = 4;

/** In a store of this format and of later ones plugins may share attach slots: earlier releases grant beyond what they share. */
export const formatWithPools = 4;

/** A store of this format and of later ones may have grants of schedulers. */
export const formatWithGrants = 4;

/** A store of this format and of later ones may have tokens of nodes and denied certificates. */
export const formatWithTrust = 4;

/** In a store of this format and of later ones permits leave ahead. */
export const formatWithLeads = 4;

/** Volumes are restored as a set in a store of this format and of later ones. */
export const formatWithRestores = 4;

export const reads = ({ oldest, newest }: StoreFormats, format: number): boolean =>
  format >= oldest && format <= newest;

export const formatsText = ({ oldest, newest }: StoreFormats): string =>
  oldest === newest ? `format ${newest}` : `formats ${oldest} to ${newest}`;
