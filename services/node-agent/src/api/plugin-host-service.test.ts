import path from "node:path";
import {
  AcceptPluginRequest,
  type ListInstancesResponse,
  PreparePluginRequest,
  StopPluginRequest,
  SupervisePluginRequest,
  SupervisionEvent,
  WatchInstancesRequest,
} from "@holdfast/shared/gen/holdfast/agent/v1/plugin_host";
import { MountPropagation } from "@holdfast/shared/gen/holdfast/agent/v1/workload";
import { type DeepPartial, WatchKind } from "@holdfast/shared/gen/holdfast/v1/common";
import { PluginRole } from "@holdfast/shared/gen/holdfast/v1/plugin";
import type { CallContext } from "@holdfast/shared/grpc/call-context";
import type { Identity } from "@holdfast/shared/grpc/identity";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { describe, expect, test } from "vitest";
import { maxRootBytes } from "../domain/paths.ts";
import { type HostLife, type HostRig, startHostRig, until } from "../testing/host-rig.ts";
import { createPluginHostService } from "./plugin-host-service.ts";

const contextOf = (signal: AbortSignal, role: Identity["role"] = "local") =>
  ({ signal, identity: { role, name: "runner" } }) as unknown as CallContext;

const nobodysPlace = { uid: 0, gid: 0, directoryUid: 0, directoryGid: 0 };

async function start(): Promise<{
  rig: HostRig;
  life: HostLife;
  service: ReturnType<typeof createPluginHostService>;
  context: CallContext;
}> {
  const rig = await startHostRig();
  const life = await rig.live();
  const service = createPluginHostService({
    node: "node-a",
    host: life.host,
    board: life.board,
    rootDir: "/var/lib/holdfast/mounts",
    admission: { accept: async ({ socketPath }) => [{ ...nobodysPlace, socket: socketPath }] },
    log: createMemoryLogger(),
    run: "run-1",
  });
  return { rig, life, service, context: contextOf(rig.signal) };
}

const request = (changes: DeepPartial<PreparePluginRequest> = {}) =>
  PreparePluginRequest.fromPartial({
    plugin: "tiny.example.com",
    allocation: "a",
    role: PluginRole.PLUGIN_ROLE_NODE,
    ...changes,
  });

const { MOUNT_PROPAGATION_BIDIRECTIONAL: shared, MOUNT_PROPAGATION_PRIVATE: own } = MountPropagation;

describe("PreparePlugin", () => {
  test("answers what the container of a node plugin needs, with defaults that fit each other", async () => {
    const { life, service, context } = await start();
    const socket = life.dirs.socketOf("a");
    expect(await service.preparePlugin(request(), context)).toEqual({
      socket,
      environment: { CSI_ENDPOINT: "unix:///csi/csi.sock" },
      mounts: [
        { hostPath: path.dirname(socket), containerPath: "/csi", readOnly: false, propagation: shared },
        { hostPath: "/var/lib/holdfast/mounts", containerPath: "/local/csi", readOnly: false, propagation: shared },
        { hostPath: "/dev", containerPath: "/dev", readOnly: false, propagation: own },
      ],
    });
  });

  test("a controller plugin is shown its socket and nothing else of the host; one without a container needs no mounts", async () => {
    const { life, service, context } = await start();
    const controller = await service.preparePlugin(
      request({ role: PluginRole.PLUGIN_ROLE_CONTROLLER, socketDir: "/s" }),
      context,
    );
    expect(controller).toMatchObject({
      mounts: [{ containerPath: "/s" }],
      environment: { CSI_ENDPOINT: "unix:///s/csi.sock" },
    });
    expect(controller.mounts).toHaveLength(1);
    const bare = await service.preparePlugin(request({ allocation: "b", hostFilesystem: true }), context);
    const socket = life.dirs.socketOf("b");
    expect(bare).toEqual({ socket, environment: { CSI_ENDPOINT: `unix://${socket}` }, mounts: [] });
  });

  test("every mistake is told at once, and nothing is written", async () => {
    const { life, service, context } = await start();
    const wrong = request({
      plugin: "-no-name-",
      allocation: "",
      role: PluginRole.PLUGIN_ROLE_UNSPECIFIED,
      socketDir: "/csi",
      publishDir: "/csi/publish",
      healthTimeout: { seconds: 0n, nanos: 0 },
    });
    const fieldsOf = async (asked: PreparePluginRequest) => {
      const error: { violations: { field: string }[] } = await service
        .preparePlugin(asked, context)
        .then(() => Promise.reject(new Error("it was taken")))
        .catch((it) => it);
      return error.violations.map(({ field }) => field);
    };
    expect(await fieldsOf(wrong)).toEqual(["plugin", "allocation", "role", "publish_dir", "health_timeout"]);
    expect(await fieldsOf(request({ publishDir: "/csi" }))).toEqual(["publish_dir"]);
    expect(await fieldsOf(request({ publishDir: "/local", socketDir: "/local/csi" }))).toEqual(["socket_dir"]);
    expect(await fieldsOf(request({ publishDir: `/${"p".repeat(maxRootBytes)}` }))).toEqual(["publish_dir"]);
    expect(await fieldsOf(request({ socketDir: `/${"s".repeat(107)}` }))).toEqual(["socket_dir"]);
    for (const publishDir of ["/", "relative", "/a/../b", "/dev", "/proc/x"])
      expect(await fieldsOf(request({ publishDir })), publishDir).toContain("publish_dir");
    expect(life.host.registry().entries).toEqual([]);
  });

  test("is not for controllers, other nodes or monitors", async () => {
    const { rig, service } = await start();
    for (const role of ["controller", "node", "monitor"] as const) {
      const context = contextOf(rig.signal, role);
      await expect(service.preparePlugin(request(), context)).rejects.toMatchObject({ reason: "PERMISSION_DENIED" });
      await expect(service.stopPlugin(StopPluginRequest.fromPartial({}), context)).rejects.toMatchObject({
        reason: "PERMISSION_DENIED",
      });
    }
  });
});

describe("SupervisePlugin and StopPlugin", () => {
  test("an instance's life in events; whoever comes later is told first how it is", async () => {
    const { rig, life, service, context } = await start();
    await service.preparePlugin(request(), context);
    await rig.plugin(life, "a");
    const seen: (SupervisionEvent | undefined)[] = [];
    for await (const step of service.supervisePlugin(
      SupervisePluginRequest.fromPartial({ allocation: "a" }),
      context,
    )) {
      seen.push(step.event);
      if (step.event !== SupervisionEvent.SUPERVISION_EVENT_READY) continue;
      expect(step.fingerprint).toMatchObject({ plugin: "tiny.example.com", instanceId: "a", nodeId: "node-1" });
      break;
    }
    expect(new Set(seen.slice(0, -1))).toEqual(new Set([SupervisionEvent.SUPERVISION_EVENT_WAITING]));
    const late = service.supervisePlugin(SupervisePluginRequest.fromPartial({ allocation: "a" }), context);
    const events = late[Symbol.asyncIterator]();
    expect((await events.next()).value).toMatchObject({ event: SupervisionEvent.SUPERVISION_EVENT_READY });
    expect(await service.stopPlugin(StopPluginRequest.fromPartial({ allocation: "a" }), context)).toEqual({
      stopped: true,
      calls: [],
    });
    expect((await events.next()).value).toMatchObject({ event: SupervisionEvent.SUPERVISION_EVENT_STOPPED });
    expect((await events.next()).done).toBe(true);
  });
});

describe("ListInstances and WatchInstances", () => {
  test("pages by key, filtered by plugin", async () => {
    const { service, context } = await start();
    for (const [allocation, plugin] of [
      ["1", "b.example.com"],
      ["2", "a.example.com"],
      ["3", "b.example.com"],
    ] as const)
      await service.preparePlugin(request({ allocation, plugin }), context);
    const page = async (pageToken: string, plugin = "", pageSize = 2) =>
      (await service.listInstances({ plugin, pageSize, pageToken }, context)) as ListInstancesResponse;
    const first = await page("");
    expect(first.instances.map(({ allocation }) => allocation)).toEqual(["2", "1"]);
    const second = await page(first.nextPageToken);
    expect(second.instances.map(({ allocation, current }) => [allocation, current])).toEqual([["3", false]]);
    expect(second.nextPageToken).toBe("");
    expect((await page("", "b.example.com")).instances.map(({ allocation }) => allocation)).toEqual(["1", "3"]);
    await expect(page("", "", -1)).rejects.toMatchObject({ reason: "INVALID_ARGUMENT" });
  });

  test("what exists, then every change in order; a token goes on where it was, one of another run does not", async () => {
    const { rig, life, service, context } = await start();
    await service.preparePlugin(request(), context);
    const watch = (resumeToken = "") =>
      service.watchInstances(WatchInstancesRequest.fromPartial({ resumeToken }), context)[Symbol.asyncIterator]();
    const all = watch();
    const next = async (items = all) => (await items.next()).value;
    expect(await next()).toMatchObject({ kind: WatchKind.WATCH_KIND_EXISTING, instance: { allocation: "a" } });
    const synced = await next();
    expect(synced).toMatchObject({ kind: WatchKind.WATCH_KIND_SYNCED });
    await rig.plugin(life, "a");
    await until(() => life.host.registry().entries[0]?.order === 1);
    await service.stopPlugin(StopPluginRequest.fromPartial({ allocation: "a" }), context);
    const gone = async (items: typeof all) => {
      const kinds: (number | undefined)[] = [];
      for (;;) {
        const message = await next(items);
        kinds.push(message?.kind);
        if (message?.kind === WatchKind.WATCH_KIND_REMOVED) return { kinds, message };
      }
    };
    const told = await gone(all);
    expect(told.message).toMatchObject({ instance: { allocation: "a", current: true } });
    expect((await gone(watch(synced?.resumeToken))).kinds).toEqual(told.kinds);
    await expect(watch("run-0.1").next()).rejects.toMatchObject({ reason: "EVENTS_TRIMMED" });
    await expect(watch("run-1.999").next()).rejects.toMatchObject({ reason: "EVENTS_TRIMMED" });
  });

  test("W13 a watcher that does not read delays no registration", async () => {
    const { rig, life, service, context } = await start();
    const slow = service.watchInstances(WatchInstancesRequest.fromPartial({}), context)[Symbol.asyncIterator]();
    expect((await slow.next()).value).toMatchObject({ kind: WatchKind.WATCH_KIND_SYNCED });
    for (const allocation of ["a", "b", "c"]) {
      await service.preparePlugin(request({ allocation }), context);
      await rig.plugin(life, allocation);
    }
    await until(() => life.host.registry().lastOrder === 3);
    expect((await slow.next()).value).toMatchObject({ instance: { allocation: "a" } });
  });
});

test("a person lets a plugin have its name at a socket; controllers and nodes do not", async () => {
  const { rig, service, context } = await start();
  const word = AcceptPluginRequest.fromPartial({ plugin: "tiny.example.com", socket: "/p/b.sock", reason: "moved" });
  expect(await service.acceptPlugin(word, context)).toEqual({ sockets: ["/p/b.sock"] });
  for (const role of ["controller", "node", "monitor"] as const)
    await expect(service.acceptPlugin(word, contextOf(rig.signal, role))).rejects.toMatchObject({
      reason: "PERMISSION_DENIED",
    });
});
