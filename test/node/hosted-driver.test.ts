/** A real driver, hosted through PluginHostService: file systems and raw devices, growing, measured, over restarts of both sides. */
import { spawnSync } from "node:child_process";
import path from "node:path";
import { isRoot, startRig } from "@holdfast/node-agent/testing/agent-rig";
import type { CreateVolumeRequest } from "@holdfast/shared/gen/csi/v1/csi";
import { PluginHostServiceDefinition } from "@holdfast/shared/gen/holdfast/agent/v1/plugin_host";
import type { DeepPartial, Permit } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import { AccessMode, AttachmentMode } from "@holdfast/shared/gen/holdfast/v1/common";
import { PluginRole } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { describe, expect, onTestFinished, test } from "vitest";
import { startLocalDriver } from "../harness/local-driver.ts";
import { detachLoopsUnder, loopsUnder } from "../harness/loop-files.ts";
import { persistently } from "../harness/scenario.ts";
import { openCsiClients } from "../local-driver/csi-clients.ts";

const plugin = "local.holdfast.dev";
const mib = 1n << 20n;

const kinds = [
  { kind: "xfs", block: false, bytes: 320n * mib, grown: 400n * mib },
  { kind: "raw", block: true, bytes: 16n * mib, grown: 32n * mib },
] as const;

describe.skipIf(!isRoot)("the local driver, hosted", () => {
  test.each(kinds)(
    "[I2] [I3] $kind: staged, published, grown, measured, agent and driver restarted, and nothing left",
    { timeout: 90_000 },
    async ({ block, bytes, grown }) => {
      const rig = await startRig();
      rig.plugin.kill();
      onTestFinished(() => detachLoopsUnder(rig.dir));
      const local = `unix://${path.join(rig.dir, "l.sock")}`;
      const env = { HOLDFAST_LOCAL_LISTEN: local };
      await rig.start(env);
      const channel = createGrpcChannel(local, { ownConnection: true });
      onTestFinished(() => channel.close());
      const identity = { role: "local", name: "runner" } as const;
      const runner = createGrpcClient(PluginHostServiceDefinition, channel, { log: createMemoryLogger(), identity });
      const { socket } = await runner.preparePlugin({
        plugin,
        allocation: "alloc",
        role: PluginRole.PLUGIN_ROLE_NODE,
        hostFilesystem: true,
      });
      const spec = { sockets: [socket], stateDir: path.join(rig.dir, "local"), nodeId: "node-a" };
      let driver = await startLocalDriver(spec);
      onTestFinished(async () => void (await driver.kill("SIGTERM")));
      const csi = openCsiClients(socket);
      onTestFinished(() => csi.close());
      const capability = { accessMode: { mode: 1 }, ...(block ? { block: {} } : { mount: { fsType: "xfs" } }) };
      const wanted: DeepPartial<CreateVolumeRequest> = {
        name: "hosted",
        capacityRange: { requiredBytes: bytes },
        volumeCapabilities: [capability as NonNullable<CreateVolumeRequest["volumeCapabilities"]>[number]],
        parameters: { type: "image" },
      };
      const { volume } = await csi.controller.createVolume(wanted as CreateVolumeRequest);
      const externalId = volume?.volumeId ?? "";
      const ref = { namespace: "ns", volume: "vol-1", volumeUid: "uid-vol-1", externalId, plugin, node: "node-a" };
      const nodeEpoch = () => BigInt(rig.controller.nodeEpoch());
      const accessMode = AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER;
      const attachmentMode = block
        ? AttachmentMode.ATTACHMENT_MODE_BLOCK_DEVICE
        : AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM;
      const changes: DeepPartial<Permit> = {
        ...ref,
        fsType: block ? "" : "xfs",
        volumeContext: volume?.volumeContext ?? {},
      };
      const claim = { uid: "one", ctr: 1, block, changes };
      const { published } = await rig.publishUntilSettled(claim);
      const at = published?.hostPath ?? "";
      expect(rig.mountsBelowRoot()).toContain(at);
      const sizeNow = (): bigint => {
        const [command, ...args] = block ? ["blockdev", "--getsize64", at] : ["stat", "-f", "-c", "%b %S", at];
        const { stdout } = spawnSync(command ?? "", args, { encoding: "utf8" });
        return stdout
          .trim()
          .split(" ")
          .map(BigInt)
          .reduce((a, b) => a * b, 1n);
      };
      const before = sizeNow();

      await csi.controller.controllerExpandVolume({
        volumeId: externalId,
        capacityRange: { requiredBytes: grown, limitBytes: 0n },
        secrets: {},
        volumeCapability: undefined,
      });
      const expanded = await rig.agent.expand({
        ...ref,
        nodeEpoch: nodeEpoch(),
        capacity: { requiredBytes: grown },
        capability: { accessMode, attachmentMode },
      });
      expect(expanded.expanded).toBeDefined();
      expect(sizeNow()).toBeGreaterThan(before);
      const { volumes } = await rig.agent.stats({ volumeUids: [ref.volumeUid] });
      expect(volumes.map(({ error, usage }) => [error, usage.length > 0])).toEqual([[undefined, true]]);

      const mounts = rig.mountsBelowRoot();
      rig.signal("SIGKILL");
      await rig.exited();
      await driver.kill("SIGKILL");
      await rig.start(env);
      expect(rig.mountsBelowRoot()).toEqual(mounts);
      driver = await startLocalDriver(spec);
      expect((await rig.publishUntilSettled(claim)).published?.hostPath).toBe(at);
      expect(rig.mountsBelowRoot()).toEqual(mounts);

      await persistently("the release", async () => {
        const order = { ...ref, claimUid: "one", nodeEpoch: nodeEpoch(), epoch: { gen: 1n, ctr: 1n } };
        const { released, pending } = await rig.agent.release(order);
        if (released === undefined) throw new Error(`pending: ${pending?.message}`);
      });
      expect(rig.mountsBelowRoot()).toEqual([]);
      expect(await loopsUnder(rig.dir)).toEqual([]);
      await csi.controller.deleteVolume({ volumeId: externalId, secrets: {} });
      expect(await runner.stopPlugin({ allocation: "alloc" })).toMatchObject({ stopped: true });
    },
  );
});
