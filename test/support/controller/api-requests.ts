/** Everything that callers, operators and the world may do, as data, and how each of it is done. */
import { type Code, codes } from "@holdfast/csi/outcome";
import {
  CreateClaimsRequest,
  CreateClaimsResponse,
  HandOverRequest,
  ReconcileWorkloadsRequest,
  ReleaseClaimsRequest,
} from "@holdfast/shared/gen/holdfast/v1/claim";
import { AccessMode, AttachmentMode } from "@holdfast/shared/gen/holdfast/v1/common";
import {
  DrainMode,
  DrainNodeRequest,
  ForgetNodeRequest,
  UndrainNodeRequest,
} from "@holdfast/shared/gen/holdfast/v1/node";
import { AssertDetachedRequest, ForgetVolumeRequest, ListStuckRequest } from "@holdfast/shared/gen/holdfast/v1/repair";
import { DeleteSecretRequest, PutSecretRequest } from "@holdfast/shared/gen/holdfast/v1/secret";
import {
  CreateSnapshotGroupRequest,
  CreateSnapshotRequest,
  DeleteSnapshotGroupRequest,
  DeleteSnapshotRequest,
} from "@holdfast/shared/gen/holdfast/v1/snapshot";
import {
  CreateVolumeRequest,
  DeleteVolumeRequest,
  DeregisterVolumeRequest,
  ExpandVolumeRequest,
  ExplainVolumeRequest,
  GetVolumeRequest,
  ModifyVolumeRequest,
  ReclaimPolicy,
  RegisterVolumeRequest,
  UpdateVolumeRequest,
  Volume,
  VolumeBinding,
} from "@holdfast/shared/gen/holdfast/v1/volume";
import fc from "fast-check";
import type { ApiModel } from "./api-model.ts";
import type { ApiWorld } from "./api-world.ts";
import type { ControllerProcess } from "./controller-process.ts";
import { nodeIdOf } from "./sim-hosts.ts";
import { simPlugin } from "./snapshot-world.ts";

export const volumes = ["a", "b", "c", "d"] as const;
export const workloads = ["w1", "w2", "w3", "w4"] as const;
export const nodes = ["n1", "n2", "n3"] as const;
export const snapshots = ["s1", "s2"] as const;
export const group = "g";
/** Storage that was there before: nothing that is asked here may make it vanish. */
export const foreign = "disk-1";
const secret = "k";
const namespace = "default";

export const modes = [
  "SINGLE_NODE_WRITER",
  "SINGLE_NODE_READER_ONLY",
  "MULTI_NODE_READER_ONLY",
  "MULTI_NODE_SINGLE_WRITER",
  "MULTI_NODE_MULTI_WRITER",
  "SINGLE_NODE_SINGLE_WRITER",
  "SINGLE_NODE_MULTI_WRITER",
] as const;
export type ModeName = (typeof modes)[number];

/** The first of them more often, so that requests meet. */
const often = <T>(...all: readonly T[]) =>
  fc.oneof(
    ...all.map((value, i) => ({ weight: Math.max(1, 2 * (all.length - i) - 2), arbitrary: fc.constant(value) })),
  );
const yes = (weight: number) =>
  fc.oneof({ weight, arbitrary: fc.constant(true) }, { weight: 1, arbitrary: fc.constant(false) });
const volume = often(...volumes);
const workload = often(...workloads);
const node = often(...nodes);
const snapshot = fc.constantFrom(...snapshots, "g-a", "g-b");
const waitMs = fc.oneof(
  { weight: 3, arbitrary: fc.constant(0) },
  { weight: 1, arbitrary: fc.constantFrom(500, 30_000) },
);
const none = fc.constant(undefined);

const one = <D extends string, T extends object>(
  weight: number,
  name: D,
  fields: { [K in keyof T]: fc.Arbitrary<T[K]> },
) => ({
  weight,
  arbitrary: fc.record({ do: fc.constant(name), ...fields } as unknown as {
    [K in keyof (T & { do: D })]: fc.Arbitrary<(T & { do: D })[K]>;
  }),
});

export const request = fc.oneof(
  one(7, "create", {
    volume,
    mode: fc.constantFrom(...modes),
    megabytes: fc.integer({ min: 0, max: 4 }),
    limited: fc.boolean(),
    from: fc.oneof(
      { weight: 3, arbitrary: none },
      { weight: 1, arbitrary: fc.record({ kind: fc.constant("volume" as const), id: volume as fc.Arbitrary<string> }) },
      {
        weight: 1,
        arbitrary: fc.record({ kind: fc.constant("snapshot" as const), id: snapshot as fc.Arbitrary<string> }),
      },
    ),
    zone: fc.oneof({ weight: 3, arbitrary: none }, { weight: 1, arbitrary: fc.constantFrom("z1", "z2") }),
    late: fc.oneof({ weight: 6, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
    secret: fc.oneof({ weight: 3, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
    waitMs,
  }),
  one(1, "register", { volume }),
  one(1, "update", { volume, label: fc.constantFrom("x", "y"), retain: fc.constantFrom(undefined, true, false) }),
  one(3, "expand", { volume, megabytes: fc.integer({ min: 1, max: 9 }), waitMs }),
  one(2, "modify", { volume, iops: fc.constantFrom("1", "2"), waitMs }),
  one(2, "delete", { volume, waitMs }),
  one(1, "deregister", { volume }),
  one(16, "claim", {
    workload,
    node,
    volumes: fc.oneof(
      { weight: 3, arbitrary: fc.tuple(volume) },
      { weight: 1, arbitrary: fc.uniqueArray(volume, { minLength: 2, maxLength: 3 }) },
    ),
    queue: fc.boolean(),
    readOnly: fc.boolean(),
    waitMs,
  }),
  one(6, "release", { workload, waitMs }),
  one(4, "hand-over", { workload, to: workload, node }),
  one(1, "reconcile", { live: fc.subarray([...workloads]), node: fc.oneof(none, node) }),
  one(4, "cut", { snapshot: fc.constantFrom(...snapshots), volume, waitMs }),
  one(2, "uncut", {
    snapshot,
    forget: fc.oneof({ weight: 5, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
  }),
  one(1, "group", { volumes: fc.subarray(["a", "b"], { minLength: 1 }) }),
  one(1, "ungroup", {}),
  one(1, "drain", { node, release: fc.boolean() }),
  one(2, "undrain", { node }),
  one(1, "forget-node", { node }),
  one(2, "silence", { node, silent: fc.boolean() }),
  one(2, "reboot", { node, journalLost: fc.boolean() }),
  one(1, "node-plugin", { node, healthy: yes(2) }),
  one(4, "process", { which: fc.constantFrom([0], [1], [1], [0, 1]), ready: yes(1) }),
  one(2, "gate", { open: yes(3) }),
  one(1, "secret", { value: fc.constantFrom<string | undefined>("x", "y", "z", undefined) }),
  one(2, "compare", {}),
  one(1, "look", { volume }),
  one(1, "assert-detached", { volume, node }),
  one(1, "forget-volume", { volume }),
  one(14, "pass", { seconds: fc.constantFrom(0, 1, 1, 3, 20, 90) }),
  one(1, "restart", {}),
  one(3, "die", {
    skip: fc.nat(4),
    how: fc.constantFrom("before" as const, "after" as const),
    downMs: fc.constantFrom(0, 10_000, 60_000, 60_000),
  }),
  one(3, "stop", { ms: fc.constantFrom(3_000, 20_000, 60_000) }),
  one(1, "lose", {
    how: fc.array(fc.constantFrom("before" as const, "after" as const), { minLength: 1, maxLength: 2 }),
  }),
);
export type Request = typeof request extends fc.Arbitrary<infer T> ? T : never;

/** What becomes of a call to a plugin, or of a message to an agent. */
export type Trouble =
  | { readonly kind: "none" | "lost" | "dropped" | "shrunk" }
  | { readonly kind: "delayed"; readonly ms: number }
  | { readonly kind: "code"; readonly code: Code; readonly after: boolean }
  | { readonly kind: "slow"; readonly ms: number; readonly done: boolean };

const failing = codes.filter((code) => code !== "OK");
export const trouble: fc.Arbitrary<Trouble> = fc.oneof(
  { weight: 10, arbitrary: fc.constant({ kind: "none" as const }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom("lost" as const, "dropped" as const) }) },
  { weight: 1, arbitrary: fc.constant({ kind: "shrunk" as const }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("code" as const),
      code: fc.constantFrom(...failing),
      after: fc.boolean(),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("slow" as const),
      ms: fc.constantFrom(50, 3_000, 130_000),
      done: fc.boolean(),
    }),
  },
);

const duration = (ms: number) => ({ seconds: BigInt(Math.floor(ms / 1_000)), nanos: (ms % 1_000) * 1_000_000 });
const megabyte = 1_048_576n;

const capability = (mode: ModeName) => ({
  attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
  accessMode: AccessMode[`ACCESS_MODE_${mode}`],
  fsType: "ext4",
});

const keep = (retain: boolean) => ({
  reclaim: retain ? ReclaimPolicy.RECLAIM_POLICY_RETAIN : ReclaimPolicy.RECLAIM_POLICY_DELETE,
});

/** Asks the API of that controller in its life of now. The model hears of the request before it leaves, and of its answer. */
export const ask = async (
  world: ApiWorld,
  controller: ControllerProcess,
  model: ApiModel,
  it: Request,
): Promise<void> => {
  const { api } = controller;
  const context = controller.context();
  const since = model.moment();
  switch (it.do) {
    case "create": {
      const { from, zone } = it;
      model.wanted(it.volume);
      const required = BigInt(it.megabytes) * megabyte;
      const answer = await api.volumes.createVolume(
        CreateVolumeRequest.fromPartial({
          namespace,
          id: it.volume,
          plugin: simPlugin,
          capacity: {
            requiredBytes: required,
            limitBytes: it.limited ? (required === 0n ? 2n * megabyte : required) : 0n,
          },
          capabilities: [capability(it.mode)],
          policy: keep(false),
          ...(it.late ? { binding: VolumeBinding.VOLUME_BINDING_FIRST_CLAIM } : {}),
          ...(zone === undefined ? {} : { topology: { required: [{ segments: { zone } }] } }),
          ...(from === undefined ? {} : { contentSource: { [from.kind]: from.id } }),
          ...(it.secret ? { secrets: { controllerPublish: { ref: `secret:${secret}` } } } : {}),
          waitFor: duration(it.waitMs),
        }),
        context,
      );
      model.made(Volume.fromPartial(answer.volume ?? {}), since.ids);
      return;
    }
    case "register": {
      model.wanted(it.volume);
      const answer = await api.volumes.registerVolume(
        RegisterVolumeRequest.fromPartial({
          namespace,
          id: it.volume,
          plugin: simPlugin,
          externalId: foreign,
          capabilities: [capability("SINGLE_NODE_WRITER")],
          policy: keep(true),
        }),
        context,
      );
      model.made(Volume.fromPartial(answer.volume ?? {}), since.ids);
      return;
    }
    case "update": {
      const { retain } = it;
      const policy = retain === undefined || model.isForeign(it.volume) ? {} : { policy: keep(retain) };
      if (retain === true) model.mayRemain(it.volume);
      await api.volumes.updateVolume(
        UpdateVolumeRequest.fromPartial({ namespace, id: it.volume, labels: { labels: { is: it.label } }, ...policy }),
        context,
      );
      return;
    }
    case "expand": {
      const capacity = { requiredBytes: BigInt(it.megabytes) * megabyte };
      await api.volumes.expandVolume(
        ExpandVolumeRequest.fromPartial({ namespace, id: it.volume, capacity, waitFor: duration(it.waitMs) }),
        context,
      );
      return;
    }
    case "modify":
      await api.volumes.modifyVolume(
        ModifyVolumeRequest.fromPartial({
          namespace,
          id: it.volume,
          mutableParameters: { iops: it.iops },
          waitFor: duration(it.waitMs),
        }),
        context,
      );
      return;
    case "delete": {
      const over = model.deleting(it.volume);
      try {
        await api.volumes.deleteVolume(
          DeleteVolumeRequest.fromPartial({ namespace, id: it.volume, waitFor: duration(it.waitMs) }),
          context,
        );
      } finally {
        over();
      }
      return;
    }
    case "deregister": {
      model.mayRemain(it.volume);
      // At a controller that stands still it lies for a while, and takes what has the id then.
      const over = model.deleting(it.volume);
      try {
        await api.volumes.deregisterVolume(DeregisterVolumeRequest.fromPartial({ namespace, id: it.volume }), context);
      } finally {
        over();
      }
      return;
    }
    case "claim": {
      const answer = await api.claims.createClaims(
        CreateClaimsRequest.fromPartial({
          namespace,
          workload: it.workload,
          node: it.node,
          claims: it.volumes.map((id) => ({ volume: id, readOnly: it.readOnly })),
          ...(it.queue ? { queue: { deadline: duration(60_000), enabled: true } } : {}),
          waitFor: duration(it.waitMs),
        }),
        context,
      );
      model.claimed(CreateClaimsResponse.fromPartial(answer).claims, since);
      return;
    }
    case "release": {
      const ofWorkload = (claim: { readonly workload: string }): boolean => claim.workload === it.workload;
      model.releasing(ofWorkload);
      try {
        await api.claims.releaseClaims(
          ReleaseClaimsRequest.fromPartial({ namespace, workload: it.workload, waitFor: duration(it.waitMs) }),
          context,
        );
      } finally {
        // What the workload claimed in the meantime may be among it.
        model.releasing(ofWorkload);
      }
      return;
    }
    case "hand-over": {
      const { workload: fromWorkload, to: toWorkload, node: toNode } = it;
      const answer = await api.claims.handOver(
        HandOverRequest.fromPartial({ namespace, fromWorkload, toWorkload, toNode, deadline: duration(60_000) }),
        context,
      );
      model.claimed(CreateClaimsResponse.fromPartial(answer).claims, since);
      return;
    }
    case "reconcile": {
      const { listToken } = await api.claims.getListToken({}, context);
      model.releasing((claim) => !it.live.some((name) => name === claim.workload));
      await api.claims.reconcileWorkloads(
        ReconcileWorkloadsRequest.fromPartial({
          listToken: listToken ?? "",
          ...(it.node === undefined ? { namespace } : { node: it.node }),
          live: it.live.map((name) => ({ namespace, workload: name })),
          noneLive: it.live.length === 0,
        }),
        context,
      );
      return;
    }
    case "cut":
      await api.snapshots.createSnapshot(
        CreateSnapshotRequest.fromPartial({
          namespace,
          id: it.snapshot,
          volume: it.volume,
          waitFor: duration(it.waitMs),
        }),
        context,
      );
      return;
    case "uncut":
      model.uncut(it.snapshot, it.forget);
      await api.snapshots.deleteSnapshot(
        DeleteSnapshotRequest.fromPartial({ namespace, id: it.snapshot, forget: it.forget }),
        context,
      );
      return;
    case "group": {
      const members = it.volumes.map((id) => ({ volume: id, snapshot: `${group}-${id}` }));
      await api.snapshots.createSnapshotGroup(
        CreateSnapshotGroupRequest.fromPartial({ namespace, id: group, members }),
        context,
      );
      return;
    }
    case "ungroup":
      model.uncut("g-a", false);
      model.uncut("g-b", false);
      await api.snapshots.deleteSnapshotGroup(
        DeleteSnapshotGroupRequest.fromPartial({ namespace, id: group }),
        context,
      );
      return;
    case "drain":
      model.draining(it.node, it.release);
      try {
        await api.nodes.drainNode(
          DrainNodeRequest.fromPartial({
            name: it.node,
            reason: "test",
            mode: it.release ? DrainMode.DRAIN_MODE_RELEASE : DrainMode.DRAIN_MODE_UNSPECIFIED,
          }),
          context,
        );
      } finally {
        // It may have lain at its controller behind the answer to an undrain.
        model.draining(it.node, it.release);
      }
      return;
    case "undrain":
      await api.nodes.undrainNode(UndrainNodeRequest.fromPartial({ name: it.node, reason: "test" }), context);
      model.undrained(it.node, since.ends);
      return;
    case "forget-node":
      await api.nodes.forgetNode(ForgetNodeRequest.fromPartial({ name: it.node, reason: "test" }), context);
      return;
    case "silence":
      world.hosts.silence(it.node, it.silent);
      return;
    case "reboot":
      await world.reboot(it.node, it.journalLost);
      return;
    case "node-plugin":
      await world.setHealthy(it.node, it.healthy);
      return;
    case "process":
      for (const which of it.which) controller.setProcess(which, it.ready);
      return;
    case "gate":
      world.setGate(it.open);
      return;
    case "secret":
      if (it.value === undefined)
        await api.secrets.deleteSecret(DeleteSecretRequest.fromPartial({ namespace, name: secret }), context);
      else
        await api.secrets.putSecret(
          PutSecretRequest.fromPartial({ namespace, name: secret, values: { token: it.value } }),
          context,
        );
      return;
    case "compare":
      await api.pass.run(simPlugin);
      return;
    case "look":
      await api.volumes.explainVolume(ExplainVolumeRequest.fromPartial({ namespace, id: it.volume }), context);
      await api.repair.listStuck(ListStuckRequest.fromPartial({ namespace }), context);
      return;
    case "assert-detached": {
      // What a person has seen does not hold for long.
      if (!controller.answers) return;
      // A person looks at the backend first, and says only what is true.
      const { attachments } = world.backend.state();
      const externalId = model.externalIdOf(it.volume);
      if (externalId === undefined) return;
      if (attachments.get(externalId)?.some((held) => held.node === nodeIdOf(it.node)) === true) return;
      if (world.backend.record().some((call) => call.endSeq === undefined && call.volume === externalId)) return;
      await confirmed(({ dryRun, confirm }) =>
        api.repair.assertDetached(
          AssertDetachedRequest.fromPartial({
            namespace,
            volume: it.volume,
            node: it.node,
            evidence: "seen at the backend",
            reason: "test",
            dryRun,
            confirm,
          }),
          context,
        ),
      );
      return;
    }
    case "forget-volume": {
      const uid = model.uidOf(it.volume);
      if (uid === undefined) return;
      // A person looks at the volume first: its storage is what is given up.
      const { volume: seen } = await api.volumes.getVolume(
        GetVolumeRequest.fromPartial({ namespace, id: it.volume }),
        context,
      );
      model.made(Volume.fromPartial(seen ?? {}));
      model.mayRemain(it.volume);
      model.forgetting(it.volume);
      await confirmed(({ dryRun, confirm }) =>
        api.repair.forgetVolume(
          ForgetVolumeRequest.fromPartial({ namespace, volume: it.volume, uid, reason: "test", dryRun, confirm }),
          context,
        ),
      );
      return;
    }
    case "pass":
      await world.pass(it.seconds * 1_000);
      return;
    case "restart":
      await world.restart(controller);
      return;
    case "die":
      controller.dieAtCommit(it.skip, it.how, it.downMs);
      return;
    case "stop":
      controller.stop(it.ms);
      return;
    case "lose":
      world.loseCommits(...it.how);
      return;
  }
};

/** As an operator does it: first what would happen, then with its confirmation. */
const confirmed = async (
  verb: (how: { readonly dryRun: boolean; readonly confirm: string }) => Promise<{
    readonly outcome?: { readonly confirmWith?: string | undefined } | undefined;
  }>,
): Promise<void> => {
  const { outcome } = await verb({ dryRun: true, confirm: "" });
  await verb({ dryRun: false, confirm: outcome?.confirmWith ?? "" });
};
