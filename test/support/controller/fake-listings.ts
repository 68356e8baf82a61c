/** What the fake backend lists of itself: truthful unless a test twists its pages. */
import type { ListedSnapshot, ListedVolume, ListingPage, ListingSkills } from "@holdfast/controller/domain/listing";
import type { Outcome } from "@holdfast/controller/domain/outcome";
import type { BackendListings } from "@holdfast/controller/ports";

type VolumePages = Outcome<ListingPage<ListedVolume>>;

export interface FakeListings extends BackendListings {
  /** Whether an instance that would have a volume can be asked. */
  setTells(tells: boolean): void;
  setSkills(change: Partial<ListingSkills>): void;
  /** Entries a page at most, whatever is asked for. */
  setPageSize(entries: number): void;
  /** What becomes of the nth page of all that were asked for, from 0; undefined = it is left as it is. */
  twist(
    change: ((page: ListingPage<ListedVolume>, nth: number, token: string) => VolumePages | undefined) | undefined,
  ): void;
  readonly snapshotsThere: Map<string, ListedSnapshot>;
  /** `volumes <token>`, `volume <id>`, `snapshots <token>` */
  readonly calls: readonly string[];
}

export interface FakeListingsDeps {
  readonly plugin: string;
  /** External ids that exist. */
  readonly volumes: () => readonly string[];
  /** `externalId@nodeId` */
  readonly attachments: () => readonly string[];
}

export const codeOutcome = (code: string): Outcome<never> => ({
  kind: "unknown",
  failure: { reason: code, message: `the list was answered with ${code}`, advice: "again", code },
});

export const createFakeListings = ({ plugin, volumes, attachments }: FakeListingsDeps): FakeListings => {
  const calls: string[] = [];
  const snapshotsThere = new Map<string, ListedSnapshot>();
  let pageSize = 500;
  let change: Parameters<FakeListings["twist"]>[0];
  let nth = 0;
  let skills: ListingSkills = {
    ready: true,
    reason: "",
    volumes: "yes",
    publishedNodes: "yes",
    snapshots: "yes",
    single: "yes",
  };

  const listed = (externalId: string): ListedVolume => ({
    externalId,
    capacity: 1_000_000,
    context: {},
    accessible: [],
    sourceSnapshot: "",
    sourceVolume: "",
    ...(skills.publishedNodes === "yes"
      ? {
          publishedNodes: attachments().flatMap((pair) =>
            pair.startsWith(`${externalId}@`) ? [pair.slice(externalId.length + 1)] : [],
          ),
        }
      : {}),
  });

  let tells = true;

  const pageOf = <T>(all: readonly T[], token: string, max: number): ListingPage<T> => {
    const at = token === "" ? 0 : Number(token);
    const size = Math.min(max, pageSize);
    return { entries: all.slice(at, at + size), next: at + size < all.length ? String(at + size) : "" };
  };

  return {
    tells: () => tells,
    setTells(next) {
      tells = next;
    },
    can: (name) => (name === plugin ? skills : { ...skills, ready: false, reason: "never seen" }),
    async volumes(_plugin, { token, max }, signal) {
      signal.throwIfAborted();
      calls.push(`volumes ${token}`);
      const page = pageOf([...volumes()].sort().map(listed), token, max);
      const twisted = change?.(page, nth, token);
      nth += 1;
      return twisted ?? { kind: "done", value: page };
    },
    async volume(_plugin, externalId) {
      calls.push(`volume ${externalId}`);
      return { kind: "done", value: volumes().includes(externalId) ? listed(externalId) : undefined };
    },
    async snapshots(_plugin, { token, max }, _secretRef, signal) {
      signal.throwIfAborted();
      calls.push(`snapshots ${token}`);
      return { kind: "done", value: pageOf([...snapshotsThere.values()], token, max) };
    },
    setSkills(next) {
      skills = { ...skills, ...next };
    },
    setPageSize(entries) {
      pageSize = entries;
    },
    twist(next) {
      change = next;
      nth = 0;
    },
    snapshotsThere,
    calls,
  };
};
