import type { Tri } from "@holdfast/model/tri";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import {
  type DeepPartial,
  FindVolumesRequest,
  MakeVolumeRequest,
  RemoveVolumeRequest,
} from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { AttachmentMode } from "@holdfast/shared/gen/holdfast/v1/common";
import type { CreateVolumeRequest } from "@holdfast/shared/gen/holdfast/v1/volume";
import { VolumeBinding } from "@holdfast/shared/gen/holdfast/v1/volume";
import type { CallContext } from "@holdfast/shared/grpc/call-context";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { caller, createWorld, plugin, type World } from "../../../../../test/support/controller/world.ts";
import { everything } from "../../domain/access/caller-scope.ts";
import { createLinkVolumes } from "./link-volumes.ts";

let world: World;
let link: ReturnType<typeof createLinkVolumes>;
let shares: Tri;
/** Done once, behind the next look at a volume. */
let meanwhile: (() => Promise<void>) | undefined;

beforeEach(async () => {
  world = await createWorld();
  shares = "unknown";
  meanwhile = undefined;
  const getVolume: World["commands"]["getVolume"] = async (ref) => {
    const view = await world.commands.getVolume(ref);
    const act = meanwhile;
    meanwhile = undefined;
    await act?.();
    return view;
  };
  link = createLinkVolumes({
    commands: { ...world.commands, getVolume },
    granted: () => true,
    wakeups: world.changes,
    recent: (ref) => world.records.recent(ref),
    feed: world.store,
    clock: world.clock,
    tracing: { currentTraceparent: () => undefined } as Parameters<typeof createLinkVolumes>[0]["tracing"],
    scopeOf: () => everything,
    nodeLost: (node) => (world.nodes.get(node)?.live === "suspect" ? "silent" : ""),
    plugins: { facts: (name) => ({ ...world.backend.facts(name), singleNodeMultiWriter: shares }) },
  });
});
afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const context = {
  identity: { role: "node", name: "n1" },
  signal: new AbortController().signal,
  remainingMs: () => 60_000,
  requestId: "r",
} as unknown as CallContext;
const attachmentMode = AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM;
const late = VolumeBinding.VOLUME_BINDING_FIRST_CLAIM;
const of = { namespace: "default", node: "n1", madeBy: "docker" } as const;
const make = async (id: string, change: DeepPartial<CreateVolumeRequest> = {}) => {
  const volume = { namespace: "default", id, plugin, capabilities: [{ attachmentMode }], binding: late, ...change };
  return (await link.makeVolume(MakeVolumeRequest.fromPartial({ ...of, volume }), context)).volume;
};
const remove = async (id: string, madeBy = "docker", seconds = 30n) =>
  await link.removeVolume(RemoveVolumeRequest.fromPartial({ ...of, madeBy, id, waitFor: { seconds } }), context);
const find = async (id = "") =>
  (await link.findVolumes(FindVolumesRequest.fromPartial({ ...of, id }), context)).volumes ?? [];
const failure = async (run: Promise<unknown>) => {
  const error: unknown = await run.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!isHoldfastError(error)) throw new Error(`no refusal but ${String(error)}`);
  return { reason: error.reason, fields: error.violations.map(({ field }) => field) };
};
const modeOf = async (id: string) =>
  (await world.commands.getVolume({ namespace: "default", id })).volume.capabilities[0]?.accessMode;

describe("a volume that a host asks for", () => {
  test("the same again is the same, other content is refused, and the mode stays what it was", async () => {
    await make("data", { capacity: { requiredBytes: 10n } });
    shares = "yes";
    await make("data", { capacity: { requiredBytes: 10n } });
    expect(await modeOf("data")).toBe("SINGLE_NODE_WRITER");
    expect(await failure(make("data", { capacity: { requiredBytes: 11n } }))).toMatchObject({
      reason: "VOLUME_EXISTS",
    });
    await make("shared");
    expect(await modeOf("shared")).toBe("SINGLE_NODE_MULTI_WRITER");
    shares = "no";
    await make("shared").catch(() => undefined);
    expect(await modeOf("shared")).toBe("SINGLE_NODE_MULTI_WRITER");
    expect((await find()).map(({ id, madeBy }) => [id, madeBy])).toEqual([
      ["data", "docker"],
      ["shared", "docker"],
    ]);
  });

  test("[LV1] is empty storage in the namespace that was judged", async () => {
    const asked = make("data", {
      namespace: "other",
      contentSource: { volume: "v" },
      secrets: { create: { ref: "secret:login" } },
      inlineSecrets: { password: "x" },
      labels: { "holdfast.made-by": "me" },
    });
    expect([...(await failure(asked)).fields].sort()).toEqual([
      "volume.content_source",
      "volume.inline_secrets",
      "volume.labels.holdfast.made-by",
      "volume.namespace",
      "volume.secrets",
    ]);
    expect(await world.countOf({ index: "volume-all", value: "all" })).toBe(0);
  });

  test("[LV2] is removed by the kind of program that made it, and no other volume is", async () => {
    await world.makeVolume("theirs");
    await make("mine");
    expect(await failure(remove("theirs"))).toMatchObject({ reason: "PERMISSION_DENIED" });
    expect(await failure(remove("mine", "podman"))).toMatchObject({ reason: "PERMISSION_DENIED" });
    const removed = remove("mine");
    await world.idle();
    await removed;
    await remove("mine");
    await remove("never");
    expect((await find()).map(({ id }) => id)).toEqual(["theirs"]);
  });

  test("[LV2] is not removed in place of another one that has its id by then", async () => {
    await make("data");
    meanwhile = async () => {
      await world.commands.deleteVolume({ namespace: "default", id: "data", uid: "", requestId: "" }, caller);
      await world.idle();
      await world.makeVolume("data");
    };
    await remove("data");
    await world.idle();
    expect(await find()).toMatchObject([{ id: "data", madeBy: "" }]);
  });

  test("is not removed while a claim lives anywhere; one that is on its way out is waited for", async () => {
    await make("data", { binding: VolumeBinding.VOLUME_BINDING_IMMEDIATE });
    await world.idle();
    await world.claim("web", "n2", ["data"]);
    await world.idle();
    expect(await failure(remove("data"))).toMatchObject({ reason: "VOLUME_IN_USE" });
    const { promise, resolve } = Promise.withResolvers<void>();
    world.backend.script("unpublish", { kind: "held", until: promise });
    await world.release("web");
    const removed = remove("data");
    await world.clock.advance(100);
    resolve();
    await world.idle();
    await removed;
    expect(await find()).toEqual([]);
    expect(world.backend.volumes()).toEqual([]);
  });

  test("[LV4] grows for the program that made it, where it asks for that, and its first request is still the same", async () => {
    const now = { binding: VolumeBinding.VOLUME_BINDING_IMMEDIATE };
    const sized = (bytes: number, limitBytes = 0n) => ({
      ...now,
      capacity: { requiredBytes: BigInt(bytes), limitBytes },
    });
    const grow = async (id: string, change: DeepPartial<CreateVolumeRequest>, madeBy = "docker") => {
      const volume = { namespace: "default", id, plugin, capabilities: [{ attachmentMode }], ...change };
      const asked = { ...volume, waitFor: { seconds: 10n } };
      const grown = link.makeVolume(
        MakeVolumeRequest.fromPartial({ ...of, madeBy, volume: asked, grow: true }),
        context,
      );
      grown.catch(() => undefined);
      await world.idle();
      return (await grown).volume;
    };
    await make("data", sized(1_000_000));
    await world.idle();
    expect(await grow("data", sized(1_000_000))).toMatchObject({ capacityBytes: 1_000_000n });
    expect(world.backend.calls.filter((call) => call.includes("expand"))).toEqual([]);
    expect(await grow("data", sized(5_000_000))).toMatchObject({ capacityBytes: 5_000_000n, trouble: "" });
    expect(await grow("data", sized(2_000_000))).toMatchObject({ capacityBytes: 5_000_000n });
    expect(await grow("data", sized(5_000_000))).toMatchObject({ capacityBytes: 5_000_000n });
    expect(world.backend.calls.filter((call) => call.includes("expand"))).toHaveLength(1);
    // Without the wish to grow another size is another volume.
    expect(await failure(make("data", sized(9_000_000)))).toMatchObject({ reason: "VOLUME_EXISTS" });
    // Another program's, or another content: no growth.
    const foreign = grow("data", sized(9_000_000), "podman");
    expect(await failure(foreign)).toMatchObject({ reason: "VOLUME_EXISTS" });
    expect(await failure(grow("data", { ...sized(9_000_000), parameters: { tier: "gold" } }))).toMatchObject({
      reason: "VOLUME_EXISTS",
    });
    world.backend.script("expand", { kind: "refused", advice: "fail", code: "OUT_OF_RANGE" });
    const refused = await grow("data", sized(9_000_000));
    expect(refused?.capacityBytes).toBe(5_000_000n);
    expect(refused?.trouble).toMatch(/./);
    expect(world.backend.calls.filter((call) => call.includes("expand"))).toHaveLength(2);
  });

  test("is told with its holders, and which of their nodes is lost", async () => {
    await make("data", { binding: VolumeBinding.VOLUME_BINDING_IMMEDIATE });
    await world.idle();
    await world.claim("web", "n2", ["data"]);
    await world.idle();
    expect((await find("data"))[0]?.holders).toEqual([{ workload: "web", node: "n2", nodeLost: "" }]);
    world.nodes.set("n2", {}, "suspect");
    expect((await find("data"))[0]?.holders).toMatchObject([{ node: "n2", nodeLost: expect.stringMatching(/./) }]);
    expect(await find("none")).toEqual([]);
  });
});
