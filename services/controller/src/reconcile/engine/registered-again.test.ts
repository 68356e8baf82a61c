import { afterEach, beforeEach, expect, it } from "vitest";
import {
  createSnapshotWorld,
  type SnapshotWorld,
  simPlugin,
} from "../../../../../test/support/controller/snapshot-world.ts";
import { capability, volumeInput } from "../../../../../test/support/controller/world.ts";

let world: SnapshotWorld;

beforeEach(async () => {
  world = await createSnapshotWorld();
  world.backend.addVolume({ id: "disk" });
});
afterEach(() => world.close());

const register = (id: string) =>
  world.commands.registerVolume(
    {
      ...volumeInput(id, { plugin: simPlugin, capacity: { required: 0, limit: 0 } }),
      capabilities: [capability("SINGLE_NODE_WRITER")],
      externalId: "disk",
      context: {},
      accessible: [],
    },
    world.caller,
  );

it("storage that is registered again while it is still asked about for a record that was given up is asked about afterwards", async () => {
  world.transport.chance((method) =>
    method === "ValidateVolumeCapabilities" ? { kind: "slow", ms: 500, done: true } : undefined,
  );
  await register("first");
  await world.clock.advance(10);
  await world.commands.deregisterVolume({ namespace: "default", id: "first", uid: "", requestId: "" }, world.caller);
  await register("second");
  await world.clock.advance(10);
  expect(world.calls("ValidateVolumeCapabilities")).toHaveLength(1);
  await world.pass(2_000, 100);
  expect((await world.volumeNow("second"))?.state).toBe("AVAILABLE");
  expect(world.backend.violations()).toEqual([]);
});
