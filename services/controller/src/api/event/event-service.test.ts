import { type Event, EventSeverity, WatchEventsRequest } from "@holdfast/shared/gen/holdfast/v1/event";
import type { CallContext } from "@holdfast/shared/grpc/call-context";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { caller, createWorld, plugin, type World } from "../../../../../test/support/controller/world.ts";
import { everything } from "../../domain/access/caller-scope.ts";
import { eventsTrimmed } from "../../store/store-errors.ts";
import { eventMessage } from "./convert-event.ts";
import { createEventService } from "./event-service.ts";

let world: World;
beforeEach(async () => {
  world = await createWorld();
});
afterEach(() => world.close());

const messages = (
  request: Parameters<typeof WatchEventsRequest.fromPartial>[0],
  signal = AbortSignal.timeout(20_000),
) =>
  createEventService({ feed: world.store, scopeOf: () => everything }).watchEvents(
    WatchEventsRequest.fromPartial(request),
    {
      signal,
    } as CallContext,
  ) as AsyncGenerator<{ readonly event?: Event | undefined; readonly resumeToken?: string }>;

const next = async (stream: AsyncGenerator<{ readonly event?: Event | undefined; readonly resumeToken?: string }>) => {
  const { value } = await stream.next();
  return value as { readonly event?: Event | undefined; readonly resumeToken: string };
};

/** Until `last` was told. */
const eventsUntil = async (
  stream: AsyncGenerator<{ readonly event?: Event | undefined; readonly resumeToken?: string }>,
  last: string,
): Promise<readonly Event[]> => {
  const seen: Event[] = [];
  for await (const { event } of stream) {
    if (event !== undefined) seen.push(event);
    if (event?.reason === last) return seen;
  }
  throw new Error(`${last} was not told`);
};

describe("WatchEvents", () => {
  test("[E1] tells each step once, in order, with who and why, and goes on from any of them", async () => {
    const { resumeToken: start } = await next(messages({}));
    await world.makeVolume("v");
    await world.claim("web", "n1", ["v"]);
    await world.idle();
    await world.commands.releaseClaims(
      { namespace: "default", workload: "web", aliases: [], claimUids: [] },
      { who: "operator/eve", why: "ReleaseClaims", traceparent: `00-${"1".repeat(32)}-${"2".repeat(16)}-01` },
    );
    await world.idle();
    const all = await eventsUntil(messages({ resumeToken: start }), "CLAIM_RELEASED");
    expect(all.map(({ reason }) => reason)).toEqual([
      "VOLUME_CREATING",
      "VOLUME_AVAILABLE",
      "CLAIM_ATTACHING",
      "CLAIM_OFFERED",
      "CLAIM_ACTIVE",
      "CLAIM_RELEASING",
      "CLAIM_DETACHING",
      "CLAIM_RELEASED",
    ]);
    expect(all.map(({ by }) => `${by?.who} ${by?.why}`)).toEqual([
      `${caller.who} ${caller.why}`,
      "controller c1/1 reconcile",
      `${caller.who} ${caller.why}`,
      "controller c1/1 reconcile",
      "controller c1/1 reconcile",
      "operator/eve ReleaseClaims",
      "controller c1/1 reconcile",
      "controller c1/1 reconcile",
    ]);
    expect(all[5]).toMatchObject({
      subject: { namespace: "default", volume: "v", workload: "web", node: "n1", plugin },
      message: "claim v of web on volume default/v at node n1 is RELEASING",
      traceId: "1".repeat(32),
      at: new Date(world.clock.now()),
    });
    for (const [i, { resumeToken }] of all.slice(0, -1).entries()) {
      const rest = await eventsUntil(messages({ resumeToken }), "CLAIM_RELEASED");
      expect(rest).toEqual(all.slice(i + 1));
    }
  });

  test("goes on with another filter, and tells what is blocked apart from what goes on", async () => {
    const { resumeToken } = await next(messages({}));
    await world.makeVolume("quiet");
    await world.makeVolume("stuck");
    world.backend.script("publish", { kind: "refused", advice: "block", code: "FAILED_PRECONDITION" });
    await world.claim("web", "n1", ["stuck"]);
    await world.idle();
    const minimumSeverity = EventSeverity.EVENT_SEVERITY_BLOCKED;
    const [event] = await eventsUntil(messages({ resumeToken, filter: { minimumSeverity } }), "CLAIM_BLOCKED");
    expect(event).toMatchObject({ severity: minimumSeverity, subject: { volume: "stuck", workload: "web" } });
    const [first] = await eventsUntil(messages({ resumeToken, filter: { volume: "stuck" } }), "VOLUME_CREATING");
    expect(first?.subject?.volume).toBe("stuck");
  });

  test("[E2] tells the position at once, also in silence", async () => {
    await world.makeVolume("before");
    const quiet = messages({ filter: { namespace: "nobody" } });
    const { event, resumeToken } = await next(quiet);
    expect(event).toBeUndefined();
    await world.makeVolume("after");
    expect(
      (await eventsUntil(messages({ resumeToken }), "VOLUME_AVAILABLE")).map(({ subject }) => subject?.volume),
    ).toEqual(["after", "after"]);
  });

  test("of what is no volume or claim has a reason of its own, and an override is told by whom and why", () => {
    const told = (type: string, kind: "orphan" | "audit" | "node" | "meta" | "volume", body: object) => {
      const event = eventMessage({ token: "t", type, ref: { kind, key: "k" }, body: JSON.stringify(body) }, "t");
      return [event.reason, event.severity, event.message];
    };
    const { EVENT_SEVERITY_INFO: info, EVENT_SEVERITY_WARNING: warning, EVENT_SEVERITY_AUDIT: audit } = EventSeverity;
    expect(told("orphan", "orphan", { plugin: "p" })).toEqual(["ORPHAN_FOUND", warning, "orphan k is FOUND"]);
    expect(told("attach-limit", "meta", { limit: 3 })).toEqual([
      "ATTACH_LIMIT_LEARNED",
      info,
      "attach-limit k is LEARNED",
    ]);
    expect(
      told("volume", "volume", { namespace: "a", volume: "v", state: "AVAILABLE", condition: "ABNORMAL" }),
    ).toEqual(["VOLUME_ABNORMAL", warning, "volume a/v is ABNORMAL"]);
    expect(told("volume", "volume", { namespace: "a", volume: "v", blocked: "X", condition: "NORMAL" })[0]).toBe(
      "VOLUME_NORMAL",
    );
    expect(told("node", "node", { node: "n1", state: "READY", drained: true })).toEqual([
      "NODE_DRAINED",
      info,
      "node k is DRAINED",
    ]);
    const body = { verb: "AbandonClaim", who: "operator/eve", reason: "the host is gone", namespace: "d", volume: "v" };
    expect(told("audit", "audit", body)).toEqual([
      "AUDIT_ABANDON_CLAIM",
      audit,
      "operator/eve used AbandonClaim on volume d/v: the host is gone",
    ]);
  });

  test("of a secret names it and nothing in it", async () => {
    const { resumeToken } = await next(messages({}));
    await world.secrets.putSecret(
      { namespace: "default", name: "s", values: { token: "cAnAry" }, requestId: "" },
      caller,
    );
    const [event] = await eventsUntil(messages({ resumeToken }), "SECRET_PUT");
    expect(event).toMatchObject({ subject: { namespace: "default", secret: "s" }, by: { who: "test", why: "test" } });
    expect(JSON.stringify(event)).not.toContain("cAnAry");
  });

  test("refuses what is no token or no filter, with all of it", async () => {
    const error = await messages({ resumeToken: "x", filter: { node: "Up", minimumSeverity: 77 as EventSeverity } })
      .next()
      .catch((thrown: unknown) => thrown);
    expect((error as { violations: { field: string }[] }).violations.map(({ field }) => field)).toEqual([
      "filter.node",
      "filter.minimum_severity",
      "resume_token",
    ]);
  });

  test("of a token that the history does not reach says where it begins", async () => {
    await world.makeVolume("v");
    const { resumeToken } = await next(messages({}));
    const feed = {
      head: () => world.store.head(),
      // biome-ignore lint/correctness/useYield: it fails before its first event.
      watch: async function* () {
        throw eventsTrimmed("a", "pruned", await world.store.head());
      },
    };
    const stream = createEventService({ feed, scopeOf: () => everything } as never).watchEvents(
      WatchEventsRequest.fromPartial({ resumeToken }),
      {
        signal: AbortSignal.timeout(20_000),
      } as CallContext,
    ) as AsyncGenerator<{ resumeToken: string }>;
    await stream.next();
    const error = await stream.next().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ reason: "EVENTS_TRIMMED", kind: "out_of_range" });
    const { oldest_token: oldest = "" } = (error as { metadata: Record<string, string> }).metadata;
    await world.makeVolume("later");
    expect((await eventsUntil(messages({ resumeToken: oldest }), "VOLUME_AVAILABLE"))[0]?.subject?.volume).toBe(
      "later",
    );
  });
});
