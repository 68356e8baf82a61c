/** One sequence of the property over the whole API, and what has to hold while it goes on, after it, and when all is given up. */
import type { CsiMethod } from "@holdfast/csi/methods";
import type { Code } from "@holdfast/csi/outcome";
import { isAbort } from "@holdfast/shared/async/signals";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import {
  type Claim,
  ClaimState,
  GetClaimRequest,
  ListClaimsRequest,
  ListClaimsResponse,
} from "@holdfast/shared/gen/holdfast/v1/claim";
import type { Blocked } from "@holdfast/shared/gen/holdfast/v1/common";
import { ListStuckRequest, ListStuckResponse, type Stuck } from "@holdfast/shared/gen/holdfast/v1/repair";
import {
  ListSnapshotGroupsRequest,
  ListSnapshotGroupsResponse,
  ListSnapshotsRequest,
  ListSnapshotsResponse,
  type Snapshot,
  type SnapshotGroup,
  SnapshotState,
} from "@holdfast/shared/gen/holdfast/v1/snapshot";
import {
  type Expansion,
  ListVolumesRequest,
  ListVolumesResponse,
  type Volume,
  VolumeBinding,
  VolumeChangeState,
  VolumeState,
} from "@holdfast/shared/gen/holdfast/v1/volume";
import type { Violation } from "@holdfast/sim-plugin/backend/call-record";
import { expect } from "vitest";
import { type ApiModel, createApiModel, wronglyHeld } from "./api-model.ts";
import {
  ask,
  foreign,
  type ModeName,
  nodes,
  type Request,
  snapshots,
  type Trouble,
  volumes,
  workloads,
} from "./api-requests.ts";
import { type ApiWorld, createApiWorld } from "./api-world.ts";
import type { WayFault } from "./sim-transport.ts";
import { simPlugin } from "./snapshot-world.ts";
import type { Takeovers } from "./takeovers.ts";

const namespace = "default";

/** With these a plugin says that it has done nothing. Not the product's own table: that is what is tested. */
const certain = new Set<Code>([
  "INVALID_ARGUMENT",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "FAILED_PRECONDITION",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "UNAUTHENTICATED",
]);

/** What the plugin does wrong in this call: work that was done is never refused, and nothing is called gone that is there. */
const faultOf = (method: CsiMethod, it: Trouble): WayFault | undefined => {
  switch (it.kind) {
    case "lost":
    case "dropped":
      return { kind: it.kind };
    case "slow":
      return it;
    case "delayed":
      // An agent carries out what it was asked for in its own time.
      return method.startsWith("Node") ? undefined : it;
    case "code": {
      if (it.code === "NOT_FOUND" && method.startsWith("Delete")) return undefined;
      return { kind: "code", code: it.code, when: it.after && !certain.has(it.code) ? "after" : "before" };
    }
    default:
      return undefined;
  }
};

/** One list of troubles stands for all calls and messages of a run. */
const beset = (world: ApiWorld, troubles: readonly Trouble[]): void => {
  let calls = 0;
  let messages = 0;
  let shrink = false;
  const at = (n: number): Trouble => troubles[n % troubles.length] ?? { kind: "none" };
  world.chance(
    (method) => {
      calls += 1;
      const chosen = at(calls);
      shrink = chosen.kind === "shrunk" && method === "CreateVolume";
      return faultOf(method, chosen);
    },
    () => {
      messages += 1;
      const { kind } = at(messages * 3 + 1);
      return kind === "lost" || kind === "dropped" ? kind : undefined;
    },
  );
  world.alter((method, response) => {
    if (method !== "CreateVolume" || !shrink) return response;
    const { volume } = response as { readonly volume: { readonly capacityBytes: bigint } };
    return { volume: { ...volume, capacityBytes: volume.capacityBytes / 2n } };
  });
};

/** Internal errors are faults of ours, whatever was asked; everything else is an answer. */
const isAnswer = (error: unknown): boolean =>
  isHoldfastError(error) && error.kind !== "internal" && error.kind !== "unknown";

const createCallers = (world: ApiWorld, model: ApiModel) => {
  const wrong: unknown[] = [];
  return {
    wrong,
    /** Asks the controller, or one that lives in its place, and leaves the answer to come when it comes. */
    async ask(asked: Request, which?: number): Promise<void> {
      const wanted = which === undefined ? undefined : world.controllers[which % world.controllers.length];
      const controller = wanted?.alive === true ? wanted : world.first();
      const { signal } = controller.context();
      const answered = ask(world, controller, model, asked).catch((error: unknown) => {
        if (signal.aborted || isAbort(error) || isAnswer(error)) return;
        wrong.push({ asked, error });
      });
      const own = ["pass", "restart", "reboot", "node-plugin"].includes(asked.do);
      if (own) await answered;
      else await world.clock.advance(0);
    },
  };
};

interface Listed {
  readonly volumes: readonly Volume[];
  readonly claims: readonly Claim[];
  readonly cut: readonly Snapshot[];
  readonly groups: readonly SnapshotGroup[];
  readonly stuck: readonly Stuck[];
}

const listed = async (world: ApiWorld): Promise<Listed> => {
  const { api } = world;
  const context = world.context();
  const page = { pageSize: 500 };
  const [found, claims, cut, groups, blocked] = await Promise.all([
    api.volumes.listVolumes(ListVolumesRequest.fromPartial(page), context),
    api.claims.listClaims(ListClaimsRequest.fromPartial(page), context),
    api.snapshots.listSnapshots(ListSnapshotsRequest.fromPartial(page), context),
    api.snapshots.listSnapshotGroups(ListSnapshotGroupsRequest.fromPartial(page), context),
    api.repair.listStuck(ListStuckRequest.fromPartial(page), context),
  ]);
  return {
    volumes: ListVolumesResponse.fromPartial(found).volumes,
    claims: ListClaimsResponse.fromPartial(claims).claims,
    cut: ListSnapshotsResponse.fromPartial(cut).snapshots,
    groups: ListSnapshotGroupsResponse.fromPartial(groups).groups,
    stuck: ListStuckResponse.fromPartial(blocked).stuck,
  };
};

const learn = async (world: ApiWorld, model: ApiModel): Promise<Listed | undefined> => {
  if (!world.alive) return undefined;
  const { signal } = world.context();
  try {
    const now = await listed(world);
    for (const volume of now.volumes) model.made(volume);
    for (const { id, externalId, state } of now.cut)
      if (state === SnapshotState.SNAPSHOT_STATE_READY) model.cut(id, externalId);
    return now;
  } catch (error) {
    if (signal.aborted || isAbort(error)) return undefined;
    throw error;
  }
};

/**
 * A call beside one of the same that is open, at another gate. A gate is a process of the plugin and the life that calls it: a life knows
 * nothing of a call that the life before left open. A bar stood for one of both.
 */
const mayBeBeside = (world: ApiWorld, { seq, message }: Violation): boolean => {
  const { backend, takeovers, controllers } = world;
  const calls = new Map(backend.record().map((call) => [call.seq, call]));
  const [own, open] = [calls.get(seq), calls.get(Number(/\(call (\d+)/.exec(message)?.[1]))];
  if (own === undefined || open === undefined) return false;
  const isOfLifeBefore = controllers.some(({ isLeftOpen }) => isLeftOpen(open.seq));
  if (own.instance === open.instance && !isOfLifeBefore) return false;
  // The volume of a call about a snapshot is its source.
  const storage = (/Snapshot/.test(own.method) ? own.name : (own.volume ?? own.name)) ?? "";
  return [own, open].some(({ instance }) => takeovers.stood(storage, instance, Date.parse(own.at)));
};

/** What holds at every moment, whatever happens. */
const always = (world: ApiWorld, model: ApiModel, wrong: readonly unknown[]): void => {
  expect(wrong, "answers that are none").toEqual([]);
  expect(world.broken, "background work").toEqual([]);
  // A detach whose secret was refused is made with the newest one: a key may have been exchanged.
  const excused = ["detach-secrets-differ", ...(model.gaveUp() ? ["attach-beyond-limit"] : [])];
  // A question changes nothing: it may come beside a call of a life before, whose repeat was answered.
  const isQuestion = (method: string): boolean => /^(ControllerGetVolume|ValidateVolumeCapabilities)$/.test(method);
  const wrongOrder = world.backend
    .violations()
    .filter(
      (one) =>
        !excused.includes(one.rule) &&
        !(
          /^(second-call-in-flight|arrived-beside-open-call)$/.test(one.rule) &&
          (isQuestion(one.method) || mayBeBeside(world, one))
        ),
    );
  expect(wrongOrder, "order of the calls").toEqual([]);
  expect(wronglyHeld(world.backend), "[I1]").toEqual([]);
  expect(model.lost(world.backend), "data that nobody gave up").toEqual([]);
};

const says = (blocked: Blocked | undefined): boolean =>
  blocked !== undefined && blocked.reason !== "" && blocked.missingProof !== "" && blocked.clearWith !== "";

const moves = (change: Pick<Expansion, "state" | "blocked"> | undefined): boolean =>
  change !== undefined && change.state !== VolumeChangeState.VOLUME_CHANGE_STATE_REFUSED && !says(change.blocked);

/** Whatever could still move, by what it says of itself. */
const restless = ({ volumes: found, claims, cut, groups, stuck }: Listed): readonly string[] => [
  ...found.flatMap((volume) => {
    const { id, state, blocked, expansion, modification, intent, attachments, attachmentCount } = volume;
    const what: string[] = [];
    // A detach that no claim waits for is told of by its own.
    const owing = stuck.filter(
      (s) => s.volume === id && s.state === "DETACHING" && s.claimUid === "" && says(s.blocked),
    );
    const moving = state === VolumeState.VOLUME_STATE_CREATING || state === VolumeState.VOLUME_STATE_DELETING;
    const unbound =
      volume.binding === VolumeBinding.VOLUME_BINDING_FIRST_CLAIM &&
      volume.boundNode === "" &&
      state === VolumeState.VOLUME_STATE_CREATING;
    if (moving && !unbound && !says(blocked)) what.push(`volume ${id} is ${state}`);
    // What no node has by now is owed to the next one that gets it.
    const onNodes = expansion?.state === VolumeChangeState.VOLUME_CHANGE_STATE_NODES;
    const behind = claims.some((claim) => claim.volume === id && says(claim.blocked));
    const growing = onNodes ? expansion.nodes.some((node) => !says(node.blocked)) : moves(expansion);
    if (growing && !behind) what.push(`volume ${id} grows`);
    if (moves(modification) && !behind) what.push(`volume ${id} is modified`);
    if (
      intent !== undefined &&
      !says(blocked) &&
      !says(expansion?.blocked) &&
      !says(modification?.blocked) &&
      owing.length === 0 &&
      claims.every((c) => c.volume !== id || !says(c.blocked))
    )
      what.push(`volume ${id} has the intent ${intent.operation}`);
    const nobodys = attachments.filter(({ node }) => !owing.some((s) => s.node === node));
    if (attachmentCount > 0n && nobodys.length > 0 && !claims.some((claim) => claim.volume === id))
      what.push(`volume ${id} is attached for nobody: ${nobodys.map(({ node }) => node).join()}`);
    return what;
  }),
  ...claims
    .filter(
      ({ state, blocked, waitingFor, volume, lastError }) =>
        state !== ClaimState.CLAIM_STATE_ACTIVE &&
        !says(blocked) &&
        // It says for what it waits, and that is blocked: one call of a volume at a time.
        !(waitingFor !== "" && claims.some((other) => other.volume === volume && says(other.blocked))) &&
        !(state === ClaimState.CLAIM_STATE_QUEUED && waitingFor !== "") &&
        // What was forgotten takes room on its node, which nobody else can give.
        !(lastError?.reason === "RESOURCE_EXHAUSTED" && waitingFor !== ""),
    )
    .map(({ volume, workload, state }) => `claim of ${workload} for ${volume} is ${state}`),
  ...[...cut, ...groups]
    .filter(
      ({ state, blocked }) =>
        state !== SnapshotState.SNAPSHOT_STATE_READY && state !== SnapshotState.SNAPSHOT_STATE_FAILED && !says(blocked),
    )
    .map(({ id, state }) => `snapshot ${id} is ${state}`),
];

const isIdle = ({ controllers }: ApiWorld): boolean => controllers.every(({ api }) => api.working() === 0);

const quiet = async (world: ApiWorld, model: ApiModel, wrong: readonly unknown[]): Promise<Listed> => {
  let now: Listed | undefined;
  // An agent without its journal is another one, and takes the name when the one before has been silent for long enough.
  await world.pass(60_000, 10_000);
  for (let round = 0; round < 60; round += 1) {
    await world.pass(40_000, 10_000);
    now = await learn(world, model);
    always(world, model, wrong);
    if (now !== undefined && restless(now).length === 0 && isIdle(world)) break;
  }
  if (now === undefined) throw new Error("the controller does not live");
  return now;
};

const healthy = async (world: ApiWorld): Promise<void> => {
  world.chance(undefined, undefined);
  world.alter(undefined);
  await world.recover();
  for (const name of nodes) {
    world.hosts.silence(name, false);
    await world.setHealthy(name, true);
  }
  for (const controller of world.controllers)
    for (const which of [0, 1]) {
      controller.setProcess(which, false);
      controller.setProcess(which, true);
    }
  world.setGate(true);
};

/** All is well again, and nobody asks for anything: what was promised is there, what is owed is done. */
const settled = async (world: ApiWorld, model: ApiModel, wrong: readonly unknown[]): Promise<void> => {
  const now = await quiet(world, model, wrong);
  expect(restless(now), "stuck in silence").toEqual([]);
  const living = new Set(now.volumes.map(({ uid }) => uid));
  for (const { id, uid, mayGo } of model.volumes.values())
    if (!mayGo) expect(living.has(uid), `volume ${id} was promised and is not there`).toBe(true);
  const { volumes: stored, attachments, publications } = world.backend.state();
  for (const { id, state, capacity, externalId } of now.volumes) {
    if (state !== VolumeState.VOLUME_STATE_AVAILABLE) continue;
    const storage = stored.get(externalId);
    expect(storage, `the storage of ${id}`).toBeDefined();
    expect(storage?.capacity ?? 0n, `the size of ${id}`).toBeGreaterThanOrEqual(capacity?.requiredBytes ?? 0n);
  }
  const { api } = world;
  for (const { uid, volume, workload, alias, mayEnd } of model.claims.values()) {
    const known = [...model.volumes.values()].some((v) => v.id === volume && !v.mayGo);
    if (mayEnd || !known || now.claims.some((claim) => claim.uid === uid)) continue;
    const { claim } = await api.claims.getClaim(
      GetClaimRequest.fromPartial({ namespace, volume, workload, alias, uid }),
      world.context(),
    );
    expect(claim?.state, `the claim of ${workload} for ${volume} ended unasked`).toBe(ClaimState.CLAIM_STATE_FAILED);
    expect(claim?.lastError?.reason, "why it failed").not.toBe("");
  }
  for (const { uid, volume, node, state, degradedSince } of now.claims) {
    if (state !== ClaimState.CLAIM_STATE_ACTIVE || degradedSince !== undefined) continue;
    const externalId = now.volumes.find(({ id }) => id === volume)?.externalId ?? "";
    const there = publications.get(externalId)?.some(({ target }) => target.endsWith(`/${uid}`));
    expect(there, `${volume} is ACTIVE on ${node} and not mounted`).toBe(true);
    expect(
      attachments.get(externalId)?.some((held) => held.node === `i-${node}`),
      `${volume} on ${node}`,
    ).toBe(true);
  }
};

const lacksCredentials = async (world: ApiWorld): Promise<boolean> => {
  const now = await listed(world);
  const all = [...now.volumes, ...now.claims, ...now.cut, ...now.groups, ...now.stuck];
  return all.some(({ blocked }) => blocked?.reason === "CREDENTIALS_REFUSED") || world.takeovers.lackCredentials();
};

/** Everything is given up. Twice, as a copy holds its source while it is made. */
const tearDown = async (world: ApiWorld, model: ApiModel, callers: ReturnType<typeof createCallers>): Promise<void> => {
  for (const node of nodes) await callers.ask({ do: "undrain", node });
  // Refused credentials are tried again after an hour, or by another life.
  if (await lacksCredentials(world)) for (const controller of world.controllers) await world.restart(controller);
  for (let round = 0; round < 3; round += 1) {
    for (const workload of workloads) await callers.ask({ do: "release", workload, waitMs: 0 });
    await quiet(world, model, callers.wrong);
    await callers.ask({ do: "ungroup" });
    for (const snapshot of [...snapshots, "g-a", "g-b"] as const)
      await callers.ask({ do: "uncut", snapshot, forget: false });
    for (const volume of volumes) await callers.ask({ do: "delete", volume, waitMs: 0 });
    const now = await quiet(world, model, callers.wrong);
    if (now.volumes.length + now.cut.length + now.groups.length === 0) break;
  }
};

const over = async (world: ApiWorld, model: ApiModel): Promise<void> => {
  const now = await listed(world);
  expect(restless(now), "stuck in silence").toEqual([]);
  const left = [
    ...now.volumes.map(({ id, blocked, state }) => ({ id, blocked, state })),
    ...[...now.cut, ...now.groups].map(({ id, blocked, state }) => ({ id, blocked, state })),
  ];
  // What is in doubt holds on to what it is made from, and a claim that cannot go on to its volume.
  const doubtful = now.volumes.filter(({ blocked }) => says(blocked)).map(({ contentSource }) => contentSource);
  const cutting = now.cut.filter(({ blocked }) => says(blocked)).map(({ volume }) => volume);
  const using = now.claims.filter(({ blocked }) => says(blocked)).map(({ volume }) => volume);
  const inUse = new Set(now.volumes.filter(({ id }) => using.includes(id)).map(({ externalId }) => externalId));
  const held = new Set([...using, ...doubtful.flatMap((source) => [source?.volume, source?.snapshot]), ...cutting]);
  for (const { id, blocked, state } of left)
    expect(says(blocked) || held.has(id), `${id} is left, ${state}`).toBe(true);
  const { volumes: stored, snapshots: cut, groups, attachments, stages, publications } = world.backend.state();
  const blockedNames = new Set(now.volumes.map(({ name }) => name));
  const blockedIds = new Set(now.volumes.map(({ externalId }) => externalId));
  const kept = [...model.volumes.values()].filter(({ mayRemain }) => mayRemain);
  const keptNames = new Set(kept.map(({ name }) => name));
  const strays = [...stored.values()].filter(
    ({ id, name }) =>
      id !== foreign &&
      !blockedNames.has(name) &&
      !blockedIds.has(id) &&
      !keptNames.has(name) &&
      !model.mayBeLeft(name),
  );
  expect(
    strays.map(({ id }) => id),
    "volumes leaked",
  ).toEqual([]);
  const stuckCuts = new Set([...now.cut, ...now.groups].flatMap(({ name, externalId }) => [name, externalId]));
  const strayCuts = [...cut.values()].filter(
    ({ id, name, group }) =>
      !stuckCuts.has(id) && !stuckCuts.has(name) && !stuckCuts.has(group ?? " ") && !model.mayBeForgotten(id),
  );
  expect(
    strayCuts.map(({ id }) => id),
    "snapshots leaked",
  ).toEqual([]);
  if (now.groups.length === 0) expect([...groups.keys()], "groups leaked").toEqual([]);
  // A volume that a person forgot while it was in use stays as it was: that is what the dry run told.
  const owned = ({ volume }: { readonly volume: string }): boolean => !model.isGivenUp(volume) && !inUse.has(volume);
  expect([...attachments.values()].flat().filter(owned), "attachments leaked").toEqual([]);
  expect([...stages.values()].flat().filter(owned), "staged volumes leaked").toEqual([]);
  expect([...publications.values()].flat().filter(owned), "mounts leaked").toEqual([]);
  expect(
    world.hosts.held().filter((volume) => owned({ volume })),
    "journals",
  ).toEqual([]);
  for (const { id, api } of world.controllers)
    expect(
      [api.working(), api.callsWaiting(), api.governor.load(simPlugin).running],
      `queues and lanes of ${id}`,
    ).toEqual([0, 0, 0]);
};

const places = {
  n1: { maxVolumes: 2, topology: { zone: "z1" } },
  n2: { topology: { zone: "z1" } },
  n3: { topology: { zone: "z2" } },
};

export const runSequence = async (
  requests: readonly (readonly [Request, number])[],
  troubles: readonly Trouble[],
  snapshotPolls: number,
  first: ModeName,
): Promise<Takeovers> => {
  const world = await createApiWorld({ nodes: places, controllers: ["c1", "c2"], snapshotPolls });
  try {
    const model = createApiModel(foreign);
    const callers = createCallers(world, model);
    world.backend.addVolume({ id: foreign });
    const plain = {
      do: "create",
      megabytes: 1,
      limited: false,
      from: undefined,
      zone: undefined,
      late: false,
      waitMs: 0,
    } as const;
    await callers.ask({ do: "secret", value: "x" });
    for (const [volume, mode] of [
      ["a", first],
      ["b", "MULTI_NODE_MULTI_WRITER"],
      ["c", "SINGLE_NODE_WRITER"],
    ] as const)
      await callers.ask({ ...plain, volume, mode, secret: volume === "b" });
    await world.pass(100, 50);
    beset(world, troubles);
    let n = 0;
    for (const [asked, which] of requests) {
      await callers.ask(asked, which);
      if (!world.alive) await world.pass(1_000, 1_000);
      n += 1;
      if (n % 4 === 0) await learn(world, model);
      always(world, model, callers.wrong);
    }
    await healthy(world);
    await settled(world, model, callers.wrong);
    await tearDown(world, model, callers);
    await over(world, model);
    return world.takeovers.counts;
  } finally {
    await world.close();
  }
};
