import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { caller, createWorld, volumeInput, type World } from "../../../../../test/support/controller/world.ts";
import { maxSecretVersions } from "../../domain/secret/secret.ts";

const canary = "cAnAry-value";
const name = { namespace: "default", name: "array" };
let world: World;
beforeEach(async () => {
  world = await createWorld();
});
afterEach(() => world.close());

const put = (values: Record<string, string>, requestId = "") =>
  world.secrets.putSecret({ ...name, values, requestId }, caller);
const remove = (version = 0) => world.secrets.deleteSecret({ ...name, version }, caller);
const versions = async () =>
  (await world.secrets.listSecrets({ namespace: "", namePrefix: "" }, { size: 10, after: undefined })).items.flatMap(
    ({ record }) => record.versions.map(({ version }) => version),
  );
const referring = (ref: string) => ({ secretRefs: { controllerPublish: ref } });

describe("putting a secret", () => {
  test("makes a version of each new content, and none of a repeat", async () => {
    expect((await put({ token: "a" })).version).toBe(1);
    expect((await put({ token: "a" })).version).toBe(1);
    expect((await put({ token: canary, user: "u" })).version).toBe(2);
    // What was there before the newest is a change again.
    expect((await put({ token: "a" })).version).toBe(3);
    expect(await versions()).toEqual([1, 2, 3]);
    const stored = await world.store.get({ kind: "secret", key: "default/array" });
    expect(stored?.body).not.toContain(canary);
    expect(JSON.parse(stored?.body ?? "{}").versions[1].keys).toEqual(["token", "user"]);
  });

  test("is told apart by request_id, and never silently replaces what that request put", async () => {
    expect((await put({ token: "a" }, "r1")).version).toBe(1);
    await put({ token: "b" }, "r2");
    expect((await put({ token: "a" }, "r1")).version).toBe(1);
    const error = await put({ token: canary }, "r1").catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ reason: "SECRET_EXISTS" });
    expect(String(error)).not.toContain(canary);
    expect(await versions()).toEqual([1, 2]);
  });

  test("twice at once makes both, in one order", async () => {
    const made = await Promise.all([put({ token: "a" }), put({ token: "b" }), put({ token: "a" })]);
    expect(new Set(made.map(({ version }) => version)).size).toBeGreaterThan(1);
    expect(await versions()).toEqual([...(await versions())].sort());
  });

  test("stops where the record would grow without end", async () => {
    for (let n = 0; n < maxSecretVersions; n += 1) await put({ token: `${n}` });
    await expect(put({ token: "one more" })).rejects.toMatchObject({ reason: "TOO_MANY_VERSIONS" });
    await remove(1);
    expect((await put({ token: "one more" })).version).toBe(maxSecretVersions + 1);
  });

  test("that is wrong says all of it, and none of the values", async () => {
    const error = await world.secrets
      .putSecret(
        { namespace: "No", name: "..", values: { [canary.repeat(11)]: canary.repeat(400) }, requestId: "\n" },
        caller,
      )
      .catch((thrown: unknown) => thrown);
    expect((error as { violations: { field: string }[] }).violations.map(({ field }) => field)).toEqual([
      "namespace",
      "name",
      "values",
      "values",
      "request_id",
    ]);
    expect(JSON.stringify(error)).not.toContain(canary);
    await expect(put({})).rejects.toMatchObject({ kind: "invalid" });
  });
});

describe("deleting a secret", () => {
  test("twice is as good as once, also one that never was", async () => {
    await remove();
    await put({ token: "a" });
    await remove();
    await remove();
    await remove(7);
    expect(await versions()).toEqual([]);
  });

  test("is refused while a volume refers to it, and to a version while one names it", async () => {
    for (const token of ["a", "b", "c"]) await put({ token });
    await world.makeVolume("newest", referring("secret:default/array"));
    await world.makeVolume("second", referring("secret:default/array@2"));
    const used = { reason: "SECRET_IN_USE", metadata: { secret: "array", namespace: "default" } };
    await expect(remove()).rejects.toMatchObject({ ...used, metadata: { ...used.metadata, volume: "default/newest" } });
    await expect(remove(2)).rejects.toMatchObject({
      ...used,
      metadata: { ...used.metadata, volume: "default/second" },
    });
    await expect(remove(3)).rejects.toMatchObject(used);
    await remove(1);
    expect(await versions()).toEqual([2, 3]);
    for (const id of ["newest", "second"])
      await world.commands.deleteVolume({ namespace: "default", id, uid: "", requestId: "" }, caller);
    await world.idle();
    await remove(2);
    // The last version is all of it.
    await remove(3);
    expect(await world.store.get({ kind: "secret", key: "default/array" })).toBeUndefined();
  });

  test("[K3] of the newest version never gives its number to another: whoever was told of it may still name it", async () => {
    for (const token of ["a", "b", "c"]) await put({ token });
    await remove(3);
    await put({ token: "d" });
    await remove(1);
    await put({ token: "e" });
    expect(await versions()).toEqual([2, 4, 5]);
  });

  test("and a volume that begins to refer to it: one of the two is refused, always", async () => {
    let refused = 0;
    for (let round = 0; round < 30; round += 1) {
      await put({ token: `${round}` });
      const id = `v${round}`;
      const [made, removed] = await Promise.allSettled([
        world.commands.createVolume(volumeInput(id, referring("secret:default/array")), caller),
        remove(),
      ]);
      expect(made.status === "fulfilled" && removed.status === "fulfilled").toBe(false);
      if (removed.status === "rejected") {
        expect(removed.reason).toMatchObject({ reason: "SECRET_IN_USE" });
        await world.idle();
        await world.commands.deleteVolume({ namespace: "default", id, uid: "", requestId: "" }, caller);
      } else {
        refused += 1;
        expect((made as PromiseRejectedResult).reason).toMatchObject({ reason: "SECRET_NOT_FOUND" });
        await expect(world.volume(id)).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND" });
      }
      await world.idle();
    }
    expect(refused).toBeLessThan(31);
  });
});

describe("a volume with secrets of its own", () => {
  const inline = { inlineSecrets: { token: canary } };

  test("refers to a version of them in every family that has no reference, and nothing echoes them", async () => {
    const volume = await world.makeVolume("own", { ...inline, secretRefs: { delete: "env:DELETE" } });
    expect(volume.secretRefs).toMatchObject({ create: "secret:default/volume.own@1", delete: "env:DELETE" });
    expect(JSON.stringify(await world.store.get({ kind: "volume", key: "default/own" }))).not.toContain(canary);
    await expect(
      world.secrets.deleteSecret({ namespace: "default", name: "volume.own", version: 0 }, caller),
    ).rejects.toMatchObject({ reason: "SECRET_IN_USE" });
  });

  test("is the same volume when asked for again, and another with other values", async () => {
    const first = await world.makeVolume("own", inline);
    const again = await world.commands.createVolume(volumeInput("own", inline), caller);
    expect(again.volume.uid).toBe(first.uid);
    await expect(
      world.commands.createVolume(volumeInput("own", { inlineSecrets: { token: "other" } }), caller),
    ).rejects.toMatchObject({ reason: "VOLUME_EXISTS" });
    expect(await versions()).toEqual([1]);
  });

  test("and a reference to what is not there is not made", async () => {
    await expect(
      world.commands.createVolume(volumeInput("v", referring("secret:default/none")), caller),
    ).rejects.toMatchObject({ reason: "SECRET_NOT_FOUND", metadata: { ref: "secret:default/none" } });
    await expect(world.volume("v")).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND" });
  });
});
