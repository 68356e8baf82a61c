/**
 * The newest commit that this controller saw, and whether the store still has it. Whatever took it away (a flush, an older file, a replica that
 * had not received it), and whichever process holds the store now, a lower number says so.
 *
 * The store that refused a commit for it is vetted no more, for nobody. From then on the loss no longer holds up what needs no vetting: the
 * records of nodes that vet the store are commits, too.
 */
export interface SeenCommits {
  /** A commit of this number was answered. */
  saw(sequence: number): void;
  /** What the next commit carries. */
  carried(requiresVetted: boolean): number;
  highest(): number;
  /** It refused a commit for that. */
  refused(): void;
  /**
   * What the store says of itself, and the highest number that was seen when it was asked: in words what is missing, when that is news.
   * What was seen since may have been committed behind the answer.
   */
  compare(found: number, asked: number): { readonly behind: boolean; readonly news: string | undefined };
  /** A vetting gave the store a number above all that were seen. */
  vetted(): void;
  /** Whether a commit was seen whose number is between the two. */
  sawBetween(lastBefore: number, firstAfter: number): boolean;
}

/** A vetting raises the number by far more than the commits between two of them. */
const mostBetweenVettings = 1_000_000;
/** Others commit, too, but seldom so much between two commits of this controller: another process has the store, or it was vetted anew. */
const leap = 1_000;
const mostLeaps = 64;

export const missingCommits = (found: number, seen: number): string => {
  const missing = seen - found;
  const what =
    missing > mostBetweenVettings
      ? "its last vetting and every commit since are missing"
      : `${missing} ${missing === 1 ? "commit is" : "commits are"} missing`;
  return `its newest commit has number ${found}, and ${seen} was seen here: ${what}`;
};

export const createSeenCommits = (first: number): SeenCommits => {
  let highest = first;
  let refused = false;
  let told = false;
  /** The highest number before each leap. */
  let before: readonly number[] = [];
  return {
    saw(sequence) {
      if (sequence - highest > leap) before = [...before, highest].slice(-mostLeaps);
      highest = Math.max(highest, sequence);
    },
    sawBetween: (lastBefore, firstAfter) =>
      [...before, highest].some((number) => number > lastBefore && number < firstAfter),
    carried: (requiresVetted) => (refused && !requiresVetted ? 0 : highest),
    highest: () => highest,
    compare(found, asked) {
      const behind = found < asked;
      const news = behind && !told ? missingCommits(found, asked) : undefined;
      told = behind;
      refused &&= behind;
      return { behind, news };
    },
    refused() {
      refused = true;
      told = true;
    },
    vetted() {
      refused = false;
      told = false;
    },
  };
};
