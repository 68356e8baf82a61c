import { SnapshotServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/snapshot";
import { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";
import { describe, expect, test } from "vitest";
import { unimplemented } from "./unimplemented.ts";

const refused = (method: string) => ({
  kind: "unimplemented",
  reason: "NOT_IMPLEMENTED",
  metadata: { method },
});

describe("a service that is not there yet", () => {
  const handlers = unimplemented(SnapshotServiceDefinition, {}) as unknown as Record<
    string,
    () => Promise<unknown> | AsyncIterable<unknown>
  >;

  test("has a handler for every RPC of its definition", () => {
    expect(Object.keys(handlers).sort()).toEqual(Object.keys(SnapshotServiceDefinition.methods).sort());
  });

  test.each(Object.entries(SnapshotServiceDefinition.methods))("%s says so", async (key, { name, responseStream }) => {
    const answer = handlers[key]?.();
    const first = responseStream
      ? (answer as AsyncIterable<unknown>)[Symbol.asyncIterator]().next()
      : (answer as Promise<unknown>);
    await expect(first).rejects.toMatchObject(refused(`/holdfast.v1.SnapshotService/${name}`));
  });
});

test("what is there is left as it is", async () => {
  const getVolume = async () => ({ volume: undefined });
  const handlers = unimplemented(VolumeServiceDefinition, { getVolume });
  expect(handlers.getVolume).toBe(getVolume);
  await expect((handlers.expandVolume as () => Promise<unknown>)()).rejects.toMatchObject(
    refused("/holdfast.v1.VolumeService/ExpandVolume"),
  );
});
