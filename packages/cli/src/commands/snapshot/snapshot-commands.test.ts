import { expect, test } from "vitest";
import type { Input } from "../../frame/command.ts";
import type { Context } from "../../frame/context.ts";
import { createSnapshot } from "./snapshot-commands.ts";

const asked = async (places: readonly string[]) => {
  const requests: { readonly topology?: unknown }[] = [];
  const clients = {
    snapshots: {
      createSnapshot: async (request: { readonly topology?: unknown }) => {
        requests.push(request);
        return { snapshot: undefined };
      },
    },
  };
  const context = { clients, settings: { namespace: "default" }, out: { answer: () => undefined } };
  const input: Input = {
    arg: (name) => name,
    optionalArg: () => undefined,
    args: () => [],
    text: () => undefined,
    list: (name) => (name === "topology" ? places : []),
    flag: () => false,
  };
  await createSnapshot.run(context as unknown as Context, input);
  return requests.map(({ topology }) => topology);
};

test("snapshot create asks for each place, with all of its keys", async () => {
  expect(await asked(["zone=a,rack=1", "zone=b"])).toEqual([
    [{ segments: { zone: "a", rack: "1" } }, { segments: { zone: "b" } }],
  ]);
  expect(await asked([])).toEqual([[]]);
});

test.each(["", "zone", "zone=a,rack", "=a", "zone=a,", "zone=a,zone=b"])(
  "snapshot create asks for nothing at the place %o",
  async (place) => {
    await expect(asked([place])).rejects.toMatchObject({ reason: "USAGE" });
  },
);
