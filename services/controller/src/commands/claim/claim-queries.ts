import { blockOfClaim, type Claim, type ClaimTombstone } from "../../domain/claim/claim.ts";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import { createGrantFacts } from "../../records/grant-facts.ts";
import type { VersionedVolume } from "../../records/record-cache.ts";
import { workloadValue } from "../../records/volume/volume-codec.ts";
import type { CommandDeps } from "../command-deps.ts";
import { claimNotFound } from "../errors.ts";
import type { ClaimFilter, ClaimView, Commands, Page, PageInput } from "../model.ts";
import { clampSize, volumeIndexFor, volumesInNamespace } from "../volume/volume-queries.ts";
import { endedOfWorkload, livingView, selectViews } from "./claim-views.ts";
import { validateGetClaim, validateSelection } from "./validate-claims.ts";

const maxScanned = 2_000;
const finalStates = new Set(["RELEASED", "FAILED", "FENCED"]);

/**
 * Where a list goes on: within the living claims after a volume, of the next one, if it is `cut`, after a uid; or within those that are
 * over.
 */
type Cursor =
  | { readonly part: "living"; readonly after: string | undefined; readonly uid: string; readonly cut: string }
  | { readonly part: "over"; readonly after: string | undefined };

const readCursor = (text: string | undefined): Cursor => {
  if (text === undefined) return { part: "living", after: undefined, uid: "", cut: "" };
  const [part, after = "", uid = "", cut = ""] = text.split("|");
  const key = after === "" ? undefined : after;
  return part === "over" ? { part: "over", after: key } : { part: "living", after: key, uid, cut };
};

const writeCursor = (cursor: Cursor): string =>
  cursor.part === "over" ? `over|${cursor.after ?? ""}` : `living|${cursor.after ?? ""}|${cursor.uid}|${cursor.cut}`;

const fits =
  (filter: ClaimFilter) =>
  (claim: Claim | ClaimTombstone): boolean =>
    (filter.workload === "" || claim.workload === filter.workload) &&
    (filter.node === "" || claim.node === filter.node) &&
    (filter.states.length === 0 || filter.states.includes(claim.state)) &&
    (!filter.blocked || ("ticket" in claim && blockOfClaim(claim) !== undefined));

const fitsVolume = (filter: ClaimFilter, volume: VolumeRecord): boolean =>
  (filter.namespace === "" || volume.namespace === filter.namespace) &&
  (filter.volume === "" || volume.id === filter.volume) &&
  (filter.plugin === "" || volume.plugin === filter.plugin);

const wantsEnded = (filter: ClaimFilter): boolean =>
  filter.namespace !== "" &&
  filter.plugin === "" &&
  !filter.blocked &&
  (filter.workload !== "" ? filter.states.length === 0 || hasFinal(filter) : hasFinal(filter));

const hasFinal = (filter: ClaimFilter): boolean => filter.states.some((s) => finalStates.has(s));

export const createClaimQueries = (
  deps: CommandDeps,
): Pick<Commands, "getClaim" | "listClaims" | "selectClaims" | "claimsNow"> => {
  const { records } = deps;
  const factsOf = createGrantFacts(deps);

  const volumesPage = async (
    filter: ClaimFilter,
    after: string | undefined,
    limit: number,
  ): Promise<{ readonly volumes: readonly VersionedVolume[]; readonly next: string | undefined }> => {
    if (filter.namespace !== "" && filter.volume !== "") {
      const found =
        after === undefined ? await records.get({ namespace: filter.namespace, id: filter.volume }) : undefined;
      return { volumes: found === undefined ? [] : [found], next: undefined };
    }
    if (filter.namespace !== "" && filter.workload !== "")
      return await records.list("claim-workload", workloadValue(filter.namespace, filter.workload), { after, limit });
    return await volumesInNamespace(records, volumeIndexFor(filter), { namespace: filter.namespace }, { after, limit });
  };

  const livingPage = async (
    filter: ClaimFilter,
    size: number,
    from: Cursor & { part: "living" },
    signal: AbortSignal | undefined,
  ) => {
    const wanted = fits(filter);
    const items: ClaimView[] = [];
    let { after } = from;
    let scanned = 0;
    for (;;) {
      signal?.throwIfAborted();
      const page = await volumesPage(filter, after, Math.min(size, 100));
      for (const found of page.volumes.filter((v) => fitsVolume(filter, v.volume))) {
        const key = volumeKey(found.volume);
        // It may have gone since: the claims of the one behind it are all still to be listed.
        let last = key === from.cut ? from.uid : "";
        const claims = Object.values(found.volume.claims)
          .filter((c) => wanted(c) && c.uid > last)
          .sort((a, b) => (a.uid < b.uid ? -1 : 1));
        for (const claim of claims) {
          // A volume with many claims is continued where it was cut: `after` is the volume before it.
          if (items.length === size) return { items, next: { part: "living", after, uid: last, cut: key } as const };
          items.push(livingView(found, claim, factsOf));
          last = claim.uid;
        }
        after = key;
      }
      scanned += page.volumes.length;
      if (page.next === undefined) return { items, next: undefined };
      after = page.next;
      if (items.length === size || scanned >= maxScanned)
        return { items, next: { part: "living", after, uid: "", cut: "" } as const };
    }
  };

  const endedPage = async (
    filter: ClaimFilter,
    size: number,
    after: string | undefined,
    signal: AbortSignal | undefined,
  ) => {
    const wanted = fits(filter);
    const [index, value] =
      filter.workload === ""
        ? (["over-namespace", filter.namespace] as const)
        : (["over-workload", workloadValue(filter.namespace, filter.workload)] as const);
    const items: ClaimView[] = [];
    let next = after;
    let scanned = 0;
    do {
      signal?.throwIfAborted();
      const page = await records.listEnded(index, value, { after: next, limit: size - items.length });
      for (const claim of page.claims)
        if (wanted(claim) && (filter.volume === "" || claim.volume === filter.volume))
          items.push({ kind: "over", claim });
      scanned += page.claims.length;
      next = page.next;
    } while (next !== undefined && items.length < size && scanned < maxScanned);
    return { items, next: next === undefined ? undefined : ({ part: "over", after: next } as const) };
  };

  const listClaims = async (
    filter: ClaimFilter,
    { size: asked, after, signal }: PageInput,
  ): Promise<Page<ClaimView>> => {
    const size = clampSize(asked);
    const cursor = readCursor(after);
    const found = cursor.part === "over" ? undefined : await livingPage(filter, size, cursor, signal);
    if (found?.next !== undefined) return { items: found.items, next: writeCursor(found.next) };
    const living = found?.items ?? [];
    if (!wantsEnded(filter)) return { items: living, next: undefined };
    if (living.length === size) return { items: living, next: writeCursor({ part: "over", after: undefined }) };
    const ended = await endedPage(
      filter,
      size - living.length,
      cursor.part === "over" ? cursor.after : undefined,
      signal,
    );
    return {
      items: [...living, ...ended.items],
      next: ended.next === undefined ? undefined : writeCursor(ended.next),
    };
  };

  const viewNow = async (view: ClaimView): Promise<ClaimView> => {
    if (view.kind === "over") return view;
    const { namespace, id } = view.volume;
    const found = await records.recent(view.volume);
    const living = found?.volume.claims[view.claim.uid];
    if (found !== undefined && living !== undefined) return livingView(found, living, factsOf);
    const over = await records.ended({ ...view.claim, namespace, volume: id });
    return over === undefined ? view : { kind: "over", claim: over };
  };

  return {
    async getClaim(input) {
      validateGetClaim(input);
      const ref = { namespace: input.namespace, id: input.volume };
      const found = await records.get(ref);
      const living = Object.values(found?.volume.claims ?? {})
        .filter(
          (c) => c.workload === input.workload && c.alias === input.alias && (input.uid === "" || c.uid === input.uid),
        )
        .sort((a, b) => b.createdAt - a.createdAt || Number(b.goal === "active") - Number(a.goal === "active"))[0];
      if (found !== undefined && living !== undefined) return livingView(found, living, factsOf);
      const over = (await endedOfWorkload(records, input.namespace, input.workload)).find(
        (t) => t.volume === input.volume && t.alias === input.alias && (input.uid === "" || t.uid === input.uid),
      );
      if (over === undefined) throw claimNotFound(ref, input.workload, input.alias);
      return { kind: "over", claim: over };
    },
    listClaims,
    async selectClaims(selection) {
      validateSelection(selection);
      return await selectViews({ records, factsOf }, selection);
    },
    claimsNow: (views) => Promise.all(views.map(viewNow)),
  };
};
