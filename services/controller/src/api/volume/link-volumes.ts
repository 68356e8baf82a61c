/**
 * The volumes of the programs on a node's host, such as Docker, as their agent asks for them.
 *
 * LV1 A node has nothing made but empty storage, in the namespace that its right was judged by. LV2 It deletes only volumes that were made
 * here for the same kind of program, and of these the life whose label it has read. LV3 The same request again finds the volume of the first
 * one, whatever its plugin serves by then. LV4 A volume grows for the kind of program that made it, and never shrinks.
 */
import { linkSignals } from "@holdfast/shared/async/signals";
import { HoldfastError, invalidArgument, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type {
  AgentLinkServiceDefinition,
  HostVolume,
  MakeVolumeRequest,
} from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { AccessMode } from "@holdfast/shared/gen/holdfast/v1/common";
import type { CallContext, Implementation } from "@holdfast/shared/grpc/call-context";
import type { Caller, CreateVolumeInput, VolumeFilter } from "../../commands/model.ts";
import { validateCreateVolume } from "../../commands/volume/validate-volume.ts";
import { isUnbound } from "../../domain/claim/early-claims.ts";
import { checkId, type Violation } from "../../domain/limits.ts";
import { type VolumeRecord, type VolumeRef, volumeKey } from "../../domain/volume/volume.ts";
import type { ControllerPlugins } from "../../ports.ts";
import { type ApiDeps, callerOf } from "../api-deps.ts";
import { type Checks, createChecks, durationMs, refuseAll } from "../check-request.ts";
import { dateOf } from "../convert-message.ts";
import { holdUntil } from "../hold-until.ts";
import { nextPageToken, pageFrom, questionOf } from "../page-token.ts";
import { volumeStateMessage } from "./convert-volume.ts";
import { createVolumeInput } from "./convert-volume-request.ts";
import { expansionIsOver } from "./volume-changes.ts";

type AgentLink = Implementation<typeof AgentLinkServiceDefinition>;

export interface LinkVolumesDeps extends ApiDeps {
  /** Why nothing is heard of a node; empty while it answers. */
  readonly nodeLost: (node: string) => string;
  readonly plugins: Pick<ControllerPlugins, "facts">;
}

/** Why it is not as it was asked for. */
const troubleOf = ({ state, blocked, attempts, expansion }: VolumeRecord): string => {
  if (state === "FAILED") return blocked?.message ?? attempts.lastError?.message ?? "";
  const growing = expansion?.blocked ?? expansion?.failure ?? expansion?.attempts.lastError;
  return blocked?.message ?? growing?.message ?? "";
};

type Hold = Pick<Parameters<typeof holdUntil>[0], "context" | "waitMs">;

/** As a repeat of what made the volume, or what became of it, says it. */
const sizeAsked = ({ capacity: { required, limit } }: VolumeRecord) => ({ required, limit });

const madeByLabel = "holdfast.made-by";
const shownHolders = 100;

export const createLinkVolumes = (
  deps: LinkVolumesDeps,
): Pick<AgentLink, "makeVolume" | "removeVolume" | "findVolumes"> => {
  const { commands, recent, wakeups, clock, nodeLost, plugins } = deps;

  const told = (volume: VolumeRecord, withHolders: boolean): HostVolume => ({
    id: volume.id,
    plugin: volume.plugin,
    madeBy: volume.labels[madeByLabel] ?? "",
    state: volumeStateMessage(volume.state),
    capacityBytes: BigInt(volume.capacity.actual || volume.capacity.required),
    trouble: troubleOf(volume),
    createdAt: dateOf(volume.createdAt),
    holders: withHolders
      ? Object.values(volume.claims)
          .slice(0, shownHolders)
          .map(({ workload, node }) => ({ workload, node, nodeLost: nodeLost(node) }))
      : [],
  });

  /** LV3 */
  const modeFor = async (ref: VolumeRef, plugin: string): Promise<AccessMode> => {
    const standing = (await recent(ref))?.volume.capabilities[0]?.accessMode;
    if (standing === "SINGLE_NODE_WRITER") return AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER;
    if (standing !== undefined || plugins.facts(plugin).singleNodeMultiWriter === "yes")
      return AccessMode.ACCESS_MODE_SINGLE_NODE_MULTI_WRITER;
    return AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER;
  };

  const inputFrom = async (request: MakeVolumeRequest, checks: Checks): Promise<CreateVolumeInput> => {
    const { namespace, madeBy, volume } = request;
    checkMadeBy(madeBy, checks);
    if (volume === undefined) throw invalidArgument([{ field: "volume", description: "is required" }]);
    onlyNewStorage(volume, checks);
    if (volume.namespace !== namespace) checks.complain("volume.namespace", "has to be the namespace of the request");
    if (volume.capabilities.length !== 1) checks.complain("volume.capabilities", "has to hold one");
    const mode = await modeFor({ namespace, id: volume.id }, volume.plugin);
    const capabilities = volume.capabilities.map((one) =>
      one.accessMode === AccessMode.ACCESS_MODE_UNSPECIFIED ? { ...one, accessMode: mode } : one,
    );
    if (Object.hasOwn(volume.labels, madeByLabel))
      checks.complain(`volume.labels.${madeByLabel}`, "is set by Holdfast");
    const labels = { ...volume.labels, [madeByLabel]: madeBy };
    return createVolumeInput({ ...volume, namespace, capabilities, labels }, checks); // LV1
  };

  /** LV2: the uid of the volume; undefined: it is gone. */
  const ownLife = async (ref: VolumeRef, madeBy: string): Promise<string | undefined> => {
    const volume = (await commands.getVolume(ref).catch(unlessGone))?.volume;
    if (volume === undefined || volume.labels[madeByLabel] === madeBy) return volume?.uid;
    throw new HoldfastError({
      kind: "permission",
      reason: "PERMISSION_DENIED",
      message: `volume ${volumeKey(ref)} was not made by ${madeBy}, which therefore does not delete it; holdfast volume delete ${ref.id} --namespace ${ref.namespace}`,
      metadata: { ...ref, volume: ref.id },
    });
  };

  /** Repeats `ask` after each change of the volume while it is refused for claims or calls that end by themselves. */
  const onceLeft = async <T>(ref: VolumeRef, signal: AbortSignal, ask: () => Promise<T>): Promise<T> => {
    for (;;) {
      const since = wakeups.version();
      try {
        return await ask();
      } catch (error) {
        const volume = (await recent(ref))?.volume;
        if (!isInUse(error) || volume === undefined || !isBeingLeft(volume)) throw error;
        await wakeups.wait([volumeKey(ref)], since, signal).catch(() => {
          throw error;
        });
      }
    }
  };

  const removed = async (
    { uid, ...ref }: VolumeRef & { readonly uid: string },
    waitMs: number,
    caller: Caller,
    context: CallContext,
  ): Promise<void> => {
    const until = linkSignals(context.signal);
    const left = context.remainingMs();
    const ms = Math.max(0, Math.min(waitMs, left - Math.min(250, left / 10)));
    const cancel = clock.timer(ms, () => until.abort(new DOMException("the wait is over", "TimeoutError")));
    try {
      const since = wakeups.version();
      const first = await onceLeft(ref, until.signal, () =>
        commands.deleteVolume({ ...ref, uid, requestId: "" }, caller).catch(unlessGone),
      );
      if (first === undefined) return;
      const read = async () => {
        const now = await recent(ref);
        return now?.volume.uid === uid ? now : undefined;
      };
      await holdUntil<typeof first | undefined>({
        ...{ wakeups, clock, since, first, read, waitMs: ms },
        context: { signal: until.signal, remainingMs: context.remainingMs },
        keys: [volumeKey(ref)],
        settled: (view) => view === undefined,
      }).catch((error: unknown) => {
        // It is wanted gone, and goes on without a listener.
        if (context.signal.aborted || !until.signal.aborted) throw error;
      });
    } finally {
      cancel();
      until.dispose();
    }
  };

  /** LV4: what was made was found by the same request, with the label, before. */
  const grown = async (input: CreateVolumeInput, volume: VolumeRecord, hold: Hold, caller: Caller) => {
    const { namespace, id, capacity } = input;
    const has = volume.capacity.actual || volume.capacity.required;
    if (capacity.required <= has || volume.state !== "AVAILABLE") return volume;
    const since = wakeups.version();
    const first = await commands.expandVolume({ namespace, id, capacity, requestId: "" }, caller);
    const last = await holdUntil<typeof first | undefined>({
      ...{ ...hold, wakeups, clock, since, first },
      keys: [volumeKey(input)],
      settled: expansionIsOver,
      read: () => recent(input),
    });
    return (last ?? first).volume;
  };

  return {
    async makeVolume(request, context) {
      const checks = createChecks();
      const input = await inputFrom(request, checks);
      const waitMs = durationMs("volume.wait_for", request.volume?.waitFor, checks) ?? 0;
      refuseAll(checks, () => validateCreateVolume(input, deps.granted));
      const caller = callerOf(deps, context, "MakeVolume");
      const since = wakeups.version();
      const standing = request.grow ? (await recent(input))?.volume : undefined;
      const asked = standing === undefined ? input : { ...input, capacity: sizeAsked(standing) };
      const first = await commands.createVolume(asked, caller);
      const last = await holdUntil<typeof first | undefined>({
        ...{ wakeups, clock, context, waitMs, since, first },
        keys: [volumeKey(input)],
        settled: (view) => view === undefined || isUnbound(view.volume) || view.volume.state !== "CREATING",
        read: () => recent(input),
      });
      const { volume } = last ?? first;
      return { volume: told(request.grow ? await grown(input, volume, { context, waitMs }, caller) : volume, false) };
    },

    async removeVolume(request, context) {
      const checks = createChecks();
      const { namespace, id, madeBy } = request;
      checkMadeBy(madeBy, checks);
      complainOf(checkId("id", id), checks);
      const waitMs = durationMs("wait_for", request.waitFor, checks) ?? 0;
      refuseAll(checks, () => undefined);
      const ref = { namespace, id };
      const uid = await ownLife(ref, madeBy);
      if (uid !== undefined) await removed({ ...ref, uid }, waitMs, callerOf(deps, context, "RemoveVolume"), context);
      return {};
    },

    async findVolumes(request, { signal }) {
      const checks = createChecks();
      const { namespace, id } = request;
      if (id !== "") {
        complainOf(checkId("id", id), checks);
        refuseAll(checks, () => undefined);
        const volume = (await commands.getVolume({ namespace, id }).catch(unlessGone))?.volume;
        return { volumes: volume?.goal === "present" ? [told(volume, true)] : [], nextPageToken: "" };
      }
      const filter = { ...everyVolume, namespace };
      const question = questionOf("FindVolumes", filter);
      const page = { ...pageFrom(request, question, checks), signal };
      refuseAll(checks, () => undefined);
      const { items, next } = await commands.listVolumes(filter, page);
      const present = items.filter(({ volume }) => volume.goal === "present");
      return {
        volumes: present.map(({ volume }) => told(volume, false)),
        nextPageToken: nextPageToken(next, question),
      };
    },
  };
};

const everyVolume: Omit<VolumeFilter, "namespace"> = {
  plugin: "",
  node: "",
  states: [],
  blocked: false,
  labels: {},
  idPrefix: "",
};

/** LV1: as with the templates of claims. */
const onlyNewStorage = (volume: NonNullable<MakeVolumeRequest["volume"]>, checks: Checks): void => {
  const instead = "is for VolumeService alone: a host could read by it what it has no claim on; make the volume there";
  if (volume.secrets !== undefined) checks.complain("volume.secrets", instead);
  if (Object.keys(volume.inlineSecrets).length > 0) checks.complain("volume.inline_secrets", instead);
  if (volume.contentSource !== undefined) checks.complain("volume.content_source", instead);
};

const complainOf = (violations: readonly Violation[], checks: Checks): void => {
  for (const { field, description } of violations) checks.complain(field, description);
};

const checkMadeBy = (madeBy: string, checks: Checks): void => complainOf(checkId("made_by", madeBy), checks);

const isInUse = (error: unknown): boolean =>
  isHoldfastError(error) && (error.reason === "VOLUME_IN_USE" || error.reason === "VOLUME_BUSY");

/** Nothing holds it that has to be told to let go. */
const isBeingLeft = ({ claims, bars }: VolumeRecord): boolean =>
  bars.length === 0 &&
  Object.values(claims).every(
    ({ state, blocked }) => blocked === undefined && (state === "RELEASING" || state === "DETACHING"),
  );

const unlessGone = (error: unknown): undefined => {
  if (isHoldfastError(error) && error.reason === "VOLUME_NOT_FOUND") return undefined;
  throw error;
};
