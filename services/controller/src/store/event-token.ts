/**
 * A position in the events of one life of the store. After a failover, a restored backup or a replaced file the same numbers may
 * stand for other events, so the token names the life too, and one of another life counts as trimmed.
 */
const shape = /^(.{1,8})-(\d{1,15})$/;

/** Redis: of the run_id; SQLite: of the file's lineage. */
const shortLife = (life: string): string => life.slice(0, 8);

export const eventToken = (life: string, seq: number): string => `${shortLife(life)}-${seq}`;

/** undefined: of another life, or no token at all. */
export const seqOfToken = (life: string, token: string): number | undefined => {
  const [, named, seq] = shape.exec(token) ?? [];
  return named === shortLife(life) ? Number(seq) : undefined;
};
