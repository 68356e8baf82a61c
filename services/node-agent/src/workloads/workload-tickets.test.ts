/** Workloads of a namespace that takes tickets: what a caller of the socket gets without a good one. */
import { HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { beforeEach, describe, expect, test } from "vitest";
import { anyCaller } from "../testing/model-agent.ts";
import { away, startWorkloadRig, type WorkloadRig, webName, webOrder } from "../testing/workload-rig.ts";

const minute = 60_000;
const good = "good-ticket-canary";
let rig: WorkloadRig;
beforeEach(async () => {
  rig = await startWorkloadRig();
});

const phase = () => rig.ledger().agent().workloads["ns/web"]?.phase;
const reasonOf = (run: Promise<unknown>): Promise<string> =>
  run.then(
    () => "",
    (error: unknown) => (isHoldfastError(error) ? error.reason : String(error)),
  );
const prepare = (ticket: string, change = {}) =>
  reasonOf(rig.workloads().prepare(webOrder({ ticket, ...change }), minute, anyCaller));
const release = (ticket: string, waitMs = 0) =>
  reasonOf(rig.workloads().release({ ...webName, ticket }, waitMs, anyCaller));
const uid = (): string => [...rig.claims.known.keys()].at(-1) ?? "";
const mounted = () => Object.keys(rig.ledger().volume("uid-vol-data")?.claims ?? {}).length;
const prepared = async (ticket: string): Promise<void> => {
  const done = prepare(ticket);
  await rig.settle();
  await rig.claims.permit(uid());
  rig.claims.set(uid(), { state: "ACTIVE" });
  expect(await done).toBe("");
};
const settled = async (): Promise<void> => {
  for (let turn = 0; turn < 5; turn += 1) await rig.settle();
};

describe("preparing", () => {
  test("is refused without a good ticket, and nothing is left of it", async () => {
    rig.claims.takeTickets(good);
    expect(await prepare("")).toBe("TICKET_REQUIRED");
    expect(await prepare("bad")).toBe("TICKET_REFUSED");
    expect([phase(), rig.claims.known.size]).toEqual([undefined, 0]);
    await prepared(good);
    expect(rig.claims.tickets).toEqual(["request bad", `request ${good}`]);
  });

  test("keeps nothing of the ticket in the journal, nor in the log", async () => {
    rig.claims.takeTickets(good);
    await prepared(good);
    expect(await release(good, minute)).toBe("");
    await settled();
    expect(phase()).toBeUndefined();
    const written = JSON.stringify([rig.agent.disk().records, rig.logged()]);
    expect(written).toContain('"ticketed":true');
    expect(written).not.toContain(good);
  });

  test("[E2] a refused repeat ends nothing that was asked for before: what may have been claimed stays owed", async () => {
    rig.claims.takeTickets(good);
    rig.claims.fail(away);
    expect(await prepare(good)).toBe("CONTROLLER_UNAVAILABLE");
    rig.claims.fail(undefined);
    for (const ticket of ["", "ended"]) {
      expect(await prepare(ticket)).toMatch(/^TICKET_/);
      expect(phase()).toBe("wanted");
    }
    await prepared(good);
  });

  test("another ticket is no other content, and what is mounted is told from the host", async () => {
    rig.claims.takeTickets("first");
    await prepared("first");
    rig.claims.takeTickets("second");
    expect([await prepare("second"), await prepare("first")]).toEqual(["", ""]);
    expect(rig.claims.tickets).toEqual(["request first"]);
  });
});

describe("giving back what was prepared with a ticket", () => {
  beforeEach(async () => {
    rig.claims.takeTickets(good);
    await prepared(good);
  });

  test("[RR1] is refused without a good one, and nothing is unmounted, also in another life", async () => {
    for (const life of [1, 2]) {
      expect([await release(""), await release("bad")], String(life)).toEqual(["TICKET_REQUIRED", "TICKET_REFUSED"]);
      await settled();
      expect([phase(), mounted()]).toEqual(["claimed", 1]);
      await rig.restart();
    }
    expect(rig.claims.asked).toEqual(["request web data"]);
  });

  test("[RR1] waits for a controller, whatever ticket there is", async () => {
    rig.claims.fail(away);
    expect([await release(""), await release(good)]).toEqual(["CONTROLLER_UNAVAILABLE", "CONTROLLER_UNAVAILABLE"]);
    expect([phase(), mounted()]).toEqual(["claimed", 1]);
    rig.claims.fail(undefined);
    expect(await release(good, minute)).toBe("");
    await settled();
    expect([phase(), mounted(), rig.claims.known.get(uid())?.state]).toEqual([undefined, 0, "RELEASED"]);
  });

  test("goes on when the ticket ends meanwhile: the lives that the journal knows need none", async () => {
    const { known, asked } = rig.claims;
    const { mayRelease } = rig.claims;
    rig.claims.mayRelease = async (...given) => {
      await mayRelease(...given);
      rig.claims.takeTickets(undefined);
    };
    expect(await release(good, minute)).toBe("");
    await settled();
    expect(asked.slice(-2)).toEqual(["release web", `release web ${uid()}`]);
    expect([phase(), known.get(uid())?.state]).toEqual([undefined, "RELEASED"]);
  });

  test("needs none when the namespace takes none any more", async () => {
    rig.claims.takeTickets("");
    expect(await release("", minute)).toBe("");
    await settled();
    expect([phase(), mounted()]).toEqual([undefined, 0]);
  });
});

describe("giving back what was prepared without a ticket", () => {
  test("[RR2] asks nobody, also when the namespace takes tickets by now", async () => {
    await prepared("");
    rig.claims.takeTickets(good);
    rig.claims.fail(away);
    expect(await release("", minute)).toBe("");
    await settled();
    expect([phase(), mounted(), rig.claims.tickets]).toEqual(["releasing", 0, []]);
  });

  test("[RR2] a record of a caller that got nothing by it makes nothing free", async () => {
    await prepared("");
    await rig.workloads().release({ ...webName, ticket: "" }, minute, anyCaller);
    await settled();
    rig.claims.takeTickets(good);
    const open = rig.claims.hold();
    const asking = prepare("");
    await rig.settle();
    expect(phase()).toBe("wanted");
    expect(await release("")).toBe("TICKET_REQUIRED");
    expect(phase()).toBe("wanted");
    open();
    expect(await asking).toBe("TICKET_REQUIRED");
    expect(phase()).toBeUndefined();
  });
});

describe("a caller without a ticket", () => {
  test("[RR2] that asks while no controller answers makes nothing free of what is prepared with one later", async () => {
    rig.claims.takeTickets(good);
    rig.claims.fail(away);
    expect(await prepare("")).toBe("CONTROLLER_UNAVAILABLE");
    rig.claims.fail(undefined);
    await prepared(good);
    expect(await release("")).toBe("TICKET_REQUIRED");
    expect([phase(), mounted()]).toEqual(["claimed", 1]);
  });

  test("[O4] shares every other end of the work that both wait for", async () => {
    const open = rig.claims.hold();
    const both = [prepare(""), prepare(good)];
    await rig.settle();
    rig.claims.fail(away);
    open();
    expect(await Promise.all(both)).toEqual(["CONTROLLER_UNAVAILABLE", "CONTROLLER_UNAVAILABLE"]);
    expect(rig.claims.asked).toEqual(["request web data"]);
  });

  test.each(["", "bad"])(
    "[O4] that asks at the same time, with %j, is no reason to refuse one that has a good one",
    async (ticket) => {
      rig.claims.takeTickets(good);
      const open = rig.claims.hold();
      const first = prepare(ticket);
      await rig.settle();
      const second = prepare(good);
      await rig.settle();
      expect(rig.claims.asked).toEqual(["request web data"]);
      open();
      expect(await first).toMatch(/^TICKET_/);
      await settled();
      await rig.claims.permit(uid());
      rig.claims.set(uid(), { state: "ACTIVE" });
      expect(await second).toBe("");
      expect(await release("")).toBe("TICKET_REQUIRED");
    },
  );
});

describe("[RR3] what the host holds for a workload that was not prepared here", () => {
  /** As a scheduler claims it: the permit comes, and the journal has no workload. */
  const claimedElsewhere = async (): Promise<void> => {
    await prepared("");
    const name = { namespace: "ns", workload: "web" };
    await rig.ledger().commitAgent({ type: "workload", record: { ...name, type: "gone" } });
    expect([phase(), mounted()]).toEqual([undefined, 1]);
  };

  test("is not given back without a good ticket", async () => {
    await claimedElsewhere();
    rig.claims.takeTickets(good);
    expect([await release(""), await release("bad"), mounted()]).toEqual(["TICKET_REQUIRED", "TICKET_REFUSED", 1]);
    expect([await release(good, minute), mounted()]).toEqual(["", 0]);
  });

  test("is given back as before where the namespace takes none, or no controller answers", async () => {
    await claimedElsewhere();
    rig.claims.fail(new HoldfastError({ kind: "unavailable", reason: "CONTROLLER_UNAVAILABLE", message: "away" }));
    expect([await release("", minute), mounted()]).toEqual(["", 0]);
  });

  test("nothing of which is held is given back without a question", async () => {
    rig.claims.takeTickets(good);
    expect(await release("")).toBe("");
    expect(rig.claims.tickets).toEqual([]);
  });
});

test("a release that waits for a ticket is told with the next one, and a bad one takes its place never", async () => {
  rig.claims.takeTickets(good);
  rig.claims.fail(away);
  expect(await prepare(good)).toBe("CONTROLLER_UNAVAILABLE");
  rig.claims.fail(undefined);
  const { mayRelease } = rig.claims;
  rig.claims.mayRelease = async (...given) => {
    await mayRelease(...given);
    rig.claims.takeTickets(undefined);
  };
  expect(await release(good)).toBe("");
  rig.claims.mayRelease = mayRelease;
  await settled();
  expect(phase()).toBe("releasing");
  rig.claims.takeTickets("next");
  expect([await release(""), await release("bad")]).toEqual(["", "TICKET_REFUSED"]);
  expect(await release("next")).toBe("");
  await rig.clock.advance(minute);
  await settled();
  expect(phase()).toBeUndefined();
});
