/** Two agents that relay to the fake plugin. One that freezes is away from the first call on that lies in it. */
import { nameOnNode } from "@holdfast/controller/domain/plugin/instance-name";
import { plugin, type World } from "./world.ts";

export const gates = ["g1", "g2"] as const;
export type Gate = (typeof gates)[number];

export const createFrozenGates = ({ backend }: World) => {
  const states = gates.map((gate) => ({
    via: nameOnNode(plugin, gate),
    life: 1,
    state: "answers" as "answers" | "freezes" | "away",
    thaw: Promise.withResolvers<void>(),
  }));
  const tell = (): void =>
    backend.setSeats(
      ...states.flatMap(({ via, life, state }) => (state === "away" ? [] : { via, gate: `life-${life}` })),
    );
  const at = (gate: Gate) => states[gates.indexOf(gate)];
  tell();
  return {
    /** What becomes of a call there. */
    fault(via: string) {
      const gate = states.find((one) => one.via === via && one.state !== "answers");
      if (gate === undefined) return undefined;
      gate.state = "away";
      queueMicrotask(tell);
      return { kind: "late", arrives: gate.thaw.promise, alone: true } as const;
    },
    /** The one that calls go to. */
    freeze(): void {
      const first = states.find(({ state }) => state !== "away");
      if (first !== undefined) first.state = "freezes";
    },
    /** What lies in it comes to the plugin before it answers again; `anew`: in its next life. */
    async thaw(gate: Gate, anew = false): Promise<void> {
      const one = at(gate);
      if (one === undefined) return;
      one.thaw.resolve();
      one.thaw = Promise.withResolvers();
      await Promise.resolve();
      if (anew) one.life += 1;
      one.state = "answers";
      tell();
    },
  };
};

export type FrozenGates = ReturnType<typeof createFrozenGates>;
