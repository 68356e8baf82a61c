/**
 * SQLite keeps a value of any type in any column. A record is sound when its revision is a whole number from 1 that JavaScript can
 * count with, and its body a text, or NULL for one that was removed.
 */
export interface FoundColumns {
  /** null: it is no such number. */
  readonly rev: number | null;
  readonly body: string | null;
  readonly bodyType: string;
}

/** Of `records r`. A number that is too large would not even be read. */
export const soundColumns = `r.expires AS expires, typeof(r.body) AS bodyType,
  CASE WHEN typeof(r.rev) = 'integer' AND r.rev BETWEEN 1 AND ${Number.MAX_SAFE_INTEGER} THEN r.rev END AS rev,
  CASE WHEN typeof(r.body) = 'text' THEN r.body END AS body`;

export const damageOf = ({ rev, bodyType }: FoundColumns): string | undefined => {
  if (rev === null) return "its revision is no whole number";
  return bodyType === "text" || bodyType === "null" ? undefined : `its body is of the type ${bodyType}, not text`;
};
