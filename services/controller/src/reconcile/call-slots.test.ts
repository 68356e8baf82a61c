import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createCallSlots, type SlotRequest } from "./call-slots.ts";

const never = new AbortController().signal;
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

const held = () => {
  let open: () => void = () => undefined;
  const promise = new Promise<void>((resolve) => {
    open = () => resolve();
  });
  return { promise, open };
};

const make = (node?: string): SlotRequest => ({ plugin: "p", kind: "make", node });
const remove = (node?: string): SlotRequest => ({ plugin: "p", kind: "remove", node });

describe("call slots", () => {
  it("let one attach or detach of a pair run, and others of the plugin beside it", async () => {
    const slots = createCallSlots();
    const gate = held();
    const started: string[] = [];
    const start = (name: string, request: SlotRequest) =>
      slots.run(request, never, async () => {
        started.push(name);
        await gate.promise;
      });
    const all = [
      start("attach n1", make("n1")),
      start("detach n1", remove("n1")),
      start("attach n2", make("n2")),
      start("create", make()),
      start("other plugin", { plugin: "q", kind: "make", node: "n1" }),
    ];
    await turn();
    expect([...started].sort()).toEqual(["attach n1", "attach n2", "create", "other plugin"]);
    gate.open();
    await Promise.all(all);
    expect(started.at(-1)).toBe("detach n1");
    expect(slots.size()).toBe(0);
  });

  it("let attaches go first, and every fifth turn go to a detach", async () => {
    const slots = createCallSlots(1);
    const gate = held();
    const order: string[] = [];
    const all = [slots.run(make(), never, () => gate.promise)];
    for (let i = 0; i < 3; i += 1) all.push(slots.run(remove(), never, async () => void order.push("remove")));
    for (let i = 0; i < 10; i += 1) all.push(slots.run(make(), never, async () => void order.push("make")));
    gate.open();
    await Promise.all(all);
    expect(order.slice(0, 4)).toEqual(["make", "make", "make", "make"]);
    expect(order.indexOf("remove")).toBe(4);
    expect(order.filter((o) => o === "remove")).toHaveLength(3);
  });

  it("reject an aborted waiter, hand its turn on, and free the slot of a call that threw", async () => {
    const slots = createCallSlots(1);
    const gate = held();
    const first = slots.run(make(), never, () => gate.promise);
    const controller = new AbortController();
    const second = slots.run(make(), controller.signal, async () => "ran");
    const third = slots.run(make(), never, async () => {
      throw new Error("failed");
    });
    const fourth = slots.run(make(), never, async () => "ran");
    controller.abort(new Error("enough"));
    await expect(second).rejects.toThrow("enough");
    gate.open();
    await first;
    await expect(third).rejects.toThrow("failed");
    expect(await fourth).toBe("ran");
    expect(slots.size()).toBe(0);
  });

  it("never pass their bounds, and everybody has a turn", async () => {
    const request = fc.record({
      kind: fc.constantFrom("make" as const, "remove" as const),
      node: fc.constantFrom(undefined, "n1", "n2"),
      turns: fc.nat(3),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(request, { maxLength: 30 }),
        fc.integer({ min: 1, max: 4 }),
        async (requests, limit) => {
          const slots = createCallSlots(limit);
          let running = 0;
          let most = 0;
          const nodes = new Map<string, number>();
          await Promise.all(
            requests.map(({ kind, node, turns }) =>
              slots.run({ plugin: "p", kind, node }, never, async () => {
                running += 1;
                most = Math.max(most, running);
                if (node !== undefined) {
                  nodes.set(node, (nodes.get(node) ?? 0) + 1);
                  expect(nodes.get(node)).toBe(1);
                }
                for (let n = 0; n < turns; n += 1) await Promise.resolve();
                if (node !== undefined) nodes.set(node, 0);
                running -= 1;
              }),
            ),
          );
          expect(most).toBeLessThanOrEqual(limit);
          expect(slots.size()).toBe(0);
        },
      ),
      { numRuns: 200 },
    );
  });
});
