import { type HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { afterEach, beforeEach, expect, test } from "vitest";
import { codeOutcome } from "../../../../../test/support/controller/fake-listings.ts";
import { type ServedApi, serveApi } from "../../../../../test/support/controller/served-api.ts";
import { createWorld, plugin, type World } from "../../../../../test/support/controller/world.ts";

let world: World;
let api: ServedApi;
beforeEach(async () => {
  world = await createWorld();
  api = await serveApi(world);
});
afterEach(async () => {
  await api.close();
  await world.close();
});

const refusal = async (run: Promise<unknown>): Promise<HoldfastError> => {
  const error: unknown = await run.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!isHoldfastError(error)) throw new Error(`no refusal but ${String(error)}`);
  return error;
};

test("what the backend has is listed with the records that stand for it, page by page", async () => {
  const { externalId } = await world.makeVolume("data");
  await world.claim("job", "n1", ["data"]);
  await world.idle();
  world.backend.keep("somebody's", "ext-0-foreign");
  const first = await api.volumes.listExternalVolumes({ plugin, pageSize: 1 });
  expect(first.volumes).toMatchObject([{ externalId: "ext-0-foreign", knownNamespace: "", knownId: "" }]);
  const second = await api.volumes.listExternalVolumes({ plugin, pageSize: 1, pageToken: first.nextPageToken });
  expect(second.volumes).toMatchObject([
    { externalId, knownNamespace: "default", knownId: "data", publishedDriverNodeIds: ["n1"] },
  ]);
  expect(second.nextPageToken).toBe("");
});

test("[X37] all that a page brings is shown, also when it is more than was asked for, and the plugin's token goes on", async () => {
  for (const id of ["a", "b", "c"]) world.backend.keep(id, id);
  world.listings.twist(({ entries }) => ({ kind: "done", value: { entries: [...entries, ...entries], next: "next" } }));
  const page = await api.volumes.listExternalVolumes({ plugin, pageSize: 2 });
  expect(page.volumes.map((v) => v.externalId)).toEqual(["a", "b", "a", "b"]);
  world.listings.twist(undefined);
  world.listings.twist((_page, _nth, token) => ({
    kind: "done",
    value: { entries: [], next: token === "next" ? "" : "?" },
  }));
  expect(
    (await api.volumes.listExternalVolumes({ plugin, pageSize: 2, pageToken: page.nextPageToken })).nextPageToken,
  ).toBe("");
});

test("[O47] a token that the plugin no longer takes says so; without one it is a failure to list", async () => {
  for (const id of ["a", "b"]) world.backend.keep(id, id);
  const { nextPageToken } = await api.volumes.listExternalVolumes({ plugin, pageSize: 1 });
  world.listings.twist(() => codeOutcome("ABORTED"));
  expect(
    await refusal(api.volumes.listExternalVolumes({ plugin, pageSize: 1, pageToken: nextPageToken })),
  ).toMatchObject({
    reason: "PAGE_TOKEN_EXPIRED",
  });
  expect(await refusal(api.volumes.listExternalVolumes({ plugin }))).toMatchObject({ kind: "unavailable" });
});

test("[O48] nodes are not told of a plugin that does not announce that it knows them", async () => {
  const { externalId } = await world.makeVolume("data");
  world.backend.attach(externalId, "n9");
  world.listings.setSkills({ publishedNodes: "no" });
  const { volumes } = await api.volumes.listExternalVolumes({ plugin });
  expect(volumes).toMatchObject([{ externalId, publishedDriverNodeIds: [] }]);
});

test("a plugin that is unknown, away, or cannot list is told apart", async () => {
  expect(await refusal(api.volumes.listExternalVolumes({ plugin: "csi.none" }))).toMatchObject({
    reason: "PLUGIN_NOT_FOUND",
  });
  world.listings.setSkills({ volumes: "no" });
  expect(await refusal(api.volumes.listExternalVolumes({ plugin }))).toMatchObject({ reason: "CAPABILITY_MISMATCH" });
  world.listings.setSkills({ ready: false, volumes: "unknown", reason: "it is gone" });
  expect(await refusal(api.volumes.listExternalVolumes({ plugin }))).toMatchObject({ reason: "PLUGIN_NOT_READY" });
  expect((await refusal(api.volumes.listExternalVolumes({ plugin: "", pageSize: -1 }))).violations).toHaveLength(1);
});
