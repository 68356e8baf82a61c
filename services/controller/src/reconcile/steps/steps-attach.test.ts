import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createWorld, type World } from "../../../../../test/support/controller/world.ts";
import { attachAbandoned, detached } from "../../domain/attachment/attach-change.ts";
import { foreignNoted } from "../../domain/attachment/foreign-hold.ts";
import { keptBack } from "../../domain/claim/permit-ahead.ts";
import type { Moment } from "../../domain/moment.ts";
import { afterCall } from "../../domain/open-call.ts";
import { nodeRecord } from "../../domain/testing/record-fixtures.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";

let world: World;

beforeEach(async () => {
  world = await createWorld();
  await world.makeVolume("data");
});

afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const minute = 60_000;
const refusal = { kind: "refused", advice: "fail", code: "INVALID_ARGUMENT" } as const;
const isPublish = (call: string) => call.startsWith("publish ");

describe("an answer of ControllerPublish that could not be stored", () => {
  it("[I5] OK, then a refusal of the repeat: the attachment is owed its detach", async () => {
    // One commit for the claim, none for the answer.
    world.store.failCommits(1, 1);
    world.backend.script("publish", { kind: "lost" });
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    world.backend.script("publish", refusal);
    await world.pass(2 * minute);
    expect(world.backend.calls.filter(isPublish)).toHaveLength(2);
    expect(await world.states("web")).toEqual(["FAILED"]);
    expect(world.backend.attachments()).toEqual([]);
    expect((await world.volume("data")).attachments).toEqual({});
  });

  it("[I5] also when it was the vetting of the store that refused it", async () => {
    let release: () => void = () => undefined;
    const until = new Promise<void>((resolve) => {
      release = resolve;
    });
    world.backend.script("publish", { kind: "held", until }, refusal);
    await world.claim("web", "n1", ["data"]);
    await world.clock.advance(10);
    world.store.refuseGrants(true);
    release();
    await world.idle();
    expect(world.backend.attachments()).toHaveLength(1);
    world.store.refuseGrants(false);
    await world.pass(2 * minute);
    expect(await world.states("web")).toEqual(["FAILED"]);
    expect(world.backend.attachments()).toEqual([]);
  });

  it("[I5] whatever it was: a refusal that nobody knows of is undone to be sure", async () => {
    world.store.failCommits(1, 1);
    world.backend.script("publish", refusal, refusal);
    await world.claim("web", "n1", ["data"]);
    await world.pass(2 * minute);
    expect(await world.states("web")).toEqual(["FAILED"]);
    expect((await world.volume("data")).attachments).toEqual({});
    expect(world.backend.calls.filter((call) => call.startsWith("unpublish "))).toHaveLength(1);
  });
});

describe("an attach without an answer, given up", () => {
  const isUnpublish = (call: string) => call.startsWith("unpublish ");
  const notFound = { kind: "unknown", advice: "check-absence", code: "NOT_FOUND" } as const;
  const stays = Array.from({ length: 60 }, () => notFound);

  const givenUp = async (): Promise<void> => {
    world.backend.script("publish", { kind: "dropped" });
    world.backend.script("unpublish", ...stays);
    world.backend.setAbsence("yes");
    await world.claim("web", "n1", ["data"]);
    await world.clock.advance(0);
    await world.release("web");
  };

  it.each([1, -1])("[I5] may still arrive for five minutes, though the wall clock is set by %i days", async (days) => {
    await givenUp();
    await world.clock.advance(0);
    world.clock.setWall(world.clock.now() + days * 24 * 60 * minute);
    await world.pass(4 * minute);
    expect((await world.volume("data")).attachments["n1"]?.state).toBe("DETACHING");
    await world.pass(20 * minute, minute);
    expect((await world.volume("data")).attachments).toEqual({});
  });

  it("[I5] may still arrive: NOT_FOUND of its undo and an attachment that is not shown prove nothing for five minutes", async () => {
    await givenUp();
    await world.pass(4 * minute);
    const { externalId, attachments, claims } = await world.volume("data");
    expect(attachments["n1"]?.state).toBe("DETACHING");
    expect(Object.values(claims).map(({ state, blocked }) => [state, blocked?.reason])).toEqual([
      ["DETACHING", "DETACH_UNPROVEN"],
    ]);
    // The backend comes to what it was asked to do.
    world.backend.setAbsence(undefined);
    world.backend.attach(externalId, "n1");
    await world.pass(60 * minute, minute);
    expect(world.backend.attachments()).toEqual([]);
    expect((await world.volume("data")).attachments).toEqual({});
  });

  it("is taken for gone after that, when the backend still does not show it", async () => {
    await givenUp();
    await world.pass(7 * minute);
    expect(await world.states("web")).toEqual(["RELEASED"]);
    expect((await world.volume("data")).attachments).toEqual({});
    expect(world.backend.calls.filter(isUnpublish).length).toBeGreaterThan(1);
  });

  it("is no matter of an attach that was answered: its attachment is gone as soon as the backend says so", async () => {
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    const { externalId } = await world.volume("data");
    world.backend.detach(externalId, "n1");
    world.backend.script("unpublish", notFound);
    await world.release("web");
    await world.idle();
    expect((await world.volume("data")).attachments).toEqual({});
    expect(world.backend.calls.filter(isUnpublish)).toHaveLength(1);
  });
});

describe("a detach that is open", () => {
  it("is not over with a NOT_FOUND that the plugin did not send, though the backend shows no attachment", async () => {
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    const { unpublish } = world.backend;
    world.backend.unpublish = async () => {
      world.backend.unpublish = unpublish;
      const failure = { reason: "DETACH_UNPROVEN", message: "no", code: "NOT_FOUND", advice: "check-absence" } as const;
      return { kind: "unknown", failure };
    };
    world.backend.setAbsence("yes");
    await world.release("web");
    await world.clock.advance(0);
    const { attachments, intent } = await world.volume("data");
    expect([attachments["n1"]?.state, intent?.op, intent?.openSince]).toEqual([
      "DETACHING",
      "detach",
      expect.anything(),
    ]);
    await world.pass(minute);
    expect((await world.volume("data")).attachments).toEqual({});
    expect(world.backend.calls.filter((call) => call.startsWith("unpublish "))).toHaveLength(1);
  });
});

describe("an answer that comes after others have gone on", () => {
  it("[I5] of an earlier detach does not stand for the detach of a later attachment", async () => {
    const data = { namespace: "default", id: "data" };
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    let answer: () => void = () => undefined;
    const until = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const { unpublish } = world.backend;
    world.backend.unpublish = async () => {
      world.backend.unpublish = unpublish;
      await until;
      return { kind: "done", value: undefined };
    };
    await world.release("web");
    await world.clock.advance(0);
    // A person has said that the detach has ended. Another controller has its own answer first, and attaches the pair anew, in vain.
    const settles = async () => {
      const opId = (await world.volume("data")).intent?.opId ?? "";
      return { settles: { opId, end: "ended" } } as const;
    };
    await world.records.change(data, (v, at) => detached(v, "n1", at), await settles());
    const [next] = await world.claim("next", "n1", ["data"]);
    expect(next?.claim.state).toBe("ATTACHING");
    await world.release("next");
    const given = (v: VolumeRecord, at: Moment) => {
      const unsent = keptBack(afterCall(v, "not-sent", at), v.intent?.opId ?? "", world.gate.state().vetting);
      return attachAbandoned(unsent, next?.claim.uid ?? "", at);
    };
    await world.records.change(data, given, await settles());
    expect((await world.volume("data")).attachments["n1"]?.state).toBe("DETACHING");
    answer();
    await world.pass(60_000);
    expect(world.backend.calls.filter((call) => call.startsWith("unpublish "))).toHaveLength(1);
    expect(world.backend.attachments()).toEqual([]);
    expect((await world.volume("data")).attachments).toEqual({});
  });
});

describe("[I1] [I2] a hold that the store does not know, noted while a call was on its way", () => {
  /** The record is read once more before the call leaves, and has changed since it was planned. */
  const noted = async (volume: VolumeRecord, node: string): Promise<void> => {
    const hold = { claimUid: "c9", workload: "w", alias: "data", epoch: { gen: 1, ctr: 99 } };
    const { changed } = await world.records.change(volume, (v, at) =>
      foreignNoted(v, nodeRecord(node), [hold], at.now),
    );
    expect(changed).toBe(true);
  };
  const held = async (states: readonly string[]): Promise<void> => {
    await world.pass(minute);
    expect(await world.states("web")).toEqual(states);
  };

  it("no attach leaves", async () => {
    const { publish } = world.backend;
    const spy = vi.spyOn(world.backend, "publish").mockImplementation(async (volume, ...rest) => {
      await noted(volume, "n2");
      return await publish(volume, ...rest);
    });
    await world.claim("web", "n1", ["data"]);
    await held(["ATTACHING"]);
    expect(spy).toHaveBeenCalledOnce();
    expect(world.backend.calls.filter(isPublish)).toEqual([]);
  });

  it("no detach leaves for its node", async () => {
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    const { unpublish } = world.backend;
    const spy = vi.spyOn(world.backend, "unpublish").mockImplementation(async (volume, ...rest) => {
      await noted(volume, "n1");
      return await unpublish(volume, ...rest);
    });
    await world.release("web");
    await held(["DETACHING"]);
    expect(spy).toHaveBeenCalledOnce();
    expect(world.backend.calls.filter((call) => call.startsWith("unpublish "))).toEqual([]);
  });
});
