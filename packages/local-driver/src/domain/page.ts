import { DriverError } from "./driver-error.ts";

export interface Page<T> {
  readonly entries: readonly T[];
  /** Empty: that was all. */
  readonly nextToken: string;
}

export interface PageInput {
  /** 0: no limit. */
  readonly maxEntries: number;
  /** Empty: from the start. ABORTED when it is none of ours. */
  readonly startingToken: string;
}

/** Entries in the order of their making, so that what is added while somebody pages comes on a later page and not on none. */

export interface Listed {
  readonly id: string;
  readonly createdAt: string;
}

/** The last entry given: it need not exist any more when the next page is asked for. */
type Token = readonly [kind: string, createdAt: string, id: string];

const inOrder = (a: Listed, b: Listed): number => {
  if (a.createdAt !== b.createdAt) return a.createdAt < b.createdAt ? -1 : 1;
  if (a.id === b.id) return 0;
  return a.id < b.id ? -1 : 1;
};

/** `kind` tells the tokens of one list from those of another. */
export function pageOf<T extends Listed>(kind: string, all: readonly T[], page: PageInput): Page<T> {
  const after = page.startingToken === "" ? undefined : readToken(kind, page.startingToken);
  const rest = all.filter((entry) => after === undefined || inOrder(after, entry) < 0).toSorted(inOrder);
  const entries = page.maxEntries === 0 ? rest : rest.slice(0, page.maxEntries);
  const last = entries.at(-1);
  return { entries, nextToken: last === undefined || entries.length === rest.length ? "" : writeToken(kind, last) };
}

function writeToken(kind: string, { createdAt, id }: Listed): string {
  const token: Token = [kind, createdAt, id];
  return Buffer.from(JSON.stringify(token)).toString("base64url");
}

function readToken(kind: string, text: string): Listed {
  const [ours, createdAt, id] = partsOf(text);
  if (ours !== kind || createdAt === undefined || id === undefined)
    throw new DriverError(
      "ABORTED",
      `the starting_token is none of the list of ${kind}s of this driver; begin again with an empty one`,
    );
  return { createdAt, id };
}

function partsOf(text: string): readonly (string | undefined)[] {
  try {
    const value: unknown = JSON.parse(Buffer.from(text, "base64url").toString());
    if (!Array.isArray(value) || value.length !== 3) return [];
    return value.map((part: unknown) => (typeof part === "string" ? part : undefined));
  } catch {
    return [];
  }
}
