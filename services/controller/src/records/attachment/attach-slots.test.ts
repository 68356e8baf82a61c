import { describe, expect, it } from "vitest";
import { noLimit, slotKey } from "../../domain/attachment/slots.ts";
import { attachmentRecord, volumeRecord } from "../../domain/testing/record-fixtures.ts";
import { createAttachSlots } from "./attach-slots.ts";

const setup = () => {
  const counted: string[] = [];
  let used = 2;
  const slots = createAttachSlots({
    store: {
      count: async (entries) => {
        counted.push(...entries.map(({ value }) => value));
        return entries.map(() => used);
      },
    },
    attachLimit: () => noLimit,
    onError: (error) => {
      throw error;
    },
    signal: new AbortController().signal,
  });
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  const use = (count: number): void => {
    used = count;
  };
  return { slots, counted, turn, use };
};

const limit = { limit: 3, learned: false } as const;
const free = volumeRecord();
const place = slotKey(free.plugin, "n1");

describe("what others changed on a node", () => {
  it("is counted again where the number is asked for, and nowhere else", async () => {
    const { slots, counted, turn } = setup();
    slots.stored(free, { ...free, attachments: { n1: attachmentRecord("n1") } });
    slots.learnOf("default/data", "n1");
    await turn();
    expect(counted).toEqual([]);

    slots.state(place, limit);
    await turn();
    expect(counted).toEqual([place]);
    slots.learnOf("default/data", "n1");
    await turn();
    expect(counted).toEqual([place, place]);
    slots.learnOf("default/data", "n2");
    await turn();
    expect(counted).toEqual([place, place]);
  });

  it("wakes the volume that the plugin refused there, although nobody had asked for the number", async () => {
    const { slots, turn, use } = setup();
    const woken: (readonly string[])[] = [];
    slots.onRoom((volumes) => woken.push(volumes));
    slots.refused(place, "default/refused");
    await turn();
    expect(woken).toEqual([]);
    use(1);
    slots.learnOf("default/other", "n1");
    await turn();
    expect(woken).toEqual([["default/refused"]]);
  });
});
