import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { checkPlugin } from "../../domain/limits.ts";
import type { ListedVolume, ListingPage } from "../../domain/listing.ts";
import type { Failure, Outcome } from "../../domain/outcome.ts";
import type { VolumeRef } from "../../domain/volume/volume.ts";
import type { BackendListings, ControllerPlugins } from "../../ports.ts";
import type { VolumeRecords } from "../../records/volume/volume-records.ts";
import { pluginNotFound } from "../errors.ts";
import type { Page, PageInput } from "../model.ts";
import { refuse } from "./validate-volume.ts";

export interface ExternalVolume {
  readonly listed: ListedVolume;
  /** The record that stands for it. */
  readonly known: VolumeRef | undefined;
}

export interface ListExternalDeps {
  readonly records: Pick<VolumeRecords, "owner">;
  readonly plugins: Pick<ControllerPlugins, "names">;
  readonly listings: Pick<BackendListings, "can" | "volumes">;
}

export type ListExternalVolumes = (
  plugin: string,
  page: PageInput,
  signal: AbortSignal,
) => Promise<Page<ExternalVolume>>;

const cannotList = (plugin: string, what: string): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "CAPABILITY_MISMATCH",
    message: `plugin ${plugin} cannot list its ${what}; look at the backend with its own tools`,
    metadata: { plugin, field: "plugin", wanted: `list ${what}`, has: "not supported" },
  });

const notReady = (plugin: string, why: string): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "PLUGIN_NOT_READY",
    message: `${why}; repeat later, or see holdfast plugin status ${plugin}`,
    metadata: { plugin, node: "" },
  });

/** Throws when the plugin is unknown, away, or has no such list. */
export const requireListing = (
  { plugins, listings }: Pick<ListExternalDeps, "plugins"> & { readonly listings: Pick<BackendListings, "can"> },
  plugin: string,
  what: "volumes" | "snapshots",
): void => {
  if (!plugins.names().includes(plugin)) throw pluginNotFound(plugin);
  const can = listings.can(plugin);
  if (!can.ready || can[what] === "unknown") throw notReady(plugin, can.reason);
  if (can[what] === "no") throw cannotList(plugin, what);
};

const expired = (plugin: string, failure: Failure): HoldfastError =>
  new HoldfastError({
    kind: "aborted",
    reason: "PAGE_TOKEN_EXPIRED",
    message: `plugin ${plugin} does not go on with this list (${failure.message}); begin it anew`,
    metadata: { plugin },
  });

const failed = (plugin: string, failure: Failure): HoldfastError =>
  new HoldfastError({
    kind: failure.code === "PERMISSION_DENIED" || failure.code === "UNAUTHENTICATED" ? "precondition" : "unavailable",
    reason: failure.reason,
    message: `plugin ${plugin} did not list what it has: ${failure.message}; repeat later`,
    metadata: { plugin },
  });

/** A page of a listing, or the error of a caller. CSI: ABORTED says that the token is not good any more (C65). */
export const pageOrThrow = <T>(plugin: string, token: string, outcome: Outcome<ListingPage<T>>): ListingPage<T> => {
  if (outcome.kind === "done") return outcome.value;
  const { failure } = outcome;
  throw failure.code === "ABORTED" && token !== "" ? expired(plugin, failure) : failed(plugin, failure);
};

/** Owners are read from an index, so many at a time. */
const lookups = 32;

/** What the backend has, merged with our records. All of a page is shown, also when the plugin sends more than was asked for. */
export const listExternalVolumesQuery =
  ({ records, plugins, listings }: ListExternalDeps): ListExternalVolumes =>
  async (plugin, { size, after }, signal) => {
    refuse(checkPlugin("plugin", plugin));
    requireListing({ plugins, listings }, plugin, "volumes");
    const token = after ?? "";
    const { entries, next } = pageOrThrow(plugin, token, await listings.volumes(plugin, { token, max: size }, signal));
    const items: ExternalVolume[] = [];
    for (let at = 0; at < entries.length; at += lookups)
      items.push(
        ...(await Promise.all(
          entries.slice(at, at + lookups).map(async (listed): Promise<ExternalVolume> => {
            const owner = (await records.owner({ plugin, externalId: listed.externalId }))?.volume;
            return {
              listed,
              known: owner === undefined ? undefined : { namespace: owner.namespace, id: owner.id },
            };
          }),
        )),
      );
    return { items, next: next === "" ? undefined : next };
  };
