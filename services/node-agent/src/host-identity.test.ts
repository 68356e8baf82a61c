import { ConfigError } from "@holdfast/shared/config/config-error";
import { describe, expect, test } from "vitest";
import { type HostFacts, readHostIdentity, systemFacts } from "./host-identity.ts";

const id = "5f0c1d2e3b4a59687766554433221100";
const file = "/etc/machine-id";

const facts = (text: string | undefined, { container = false, mount = "/" } = {}): HostFacts => ({
  read: async (name) => (name === file ? text : "boot-1\n"),
  inContainer: async () => container,
  mountOf: async () => mount,
});
const read = (...given: Parameters<typeof facts>) => readHostIdentity(file, undefined, facts(...given));

test("a host tells its machine and its boot", async () => {
  expect(await read(`${id}\n`)).toEqual({ machineId: id, bootId: "boot-1" });
  expect(await read(id.toUpperCase())).toMatchObject({ machineId: id });
  expect(await readHostIdentity(file, "another-boot", facts(id))).toEqual({ machineId: id, bootId: "another-boot" });
});

describe("a machine id is refused as a setting, with the cure,", () => {
  test.each([
    ["when the file is missing", undefined],
    ["when it is empty", "\n"],
    ["on the first boot", "uninitialized\n"],
    ["when it is too short", id.slice(1)],
    ["when it is too long", `${id}0`],
    ["when it is no number", id.replace("5", "x")],
    ["when it is the id of no machine", "0".repeat(32)],
  ])("%s", async (_when, text) => {
    const refused = await read(text).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(ConfigError);
    expect(refused).toMatchObject({
      violations: [
        {
          field: "HOLDFAST_MACHINE_ID_FILE",
          description: expect.stringMatching(
            /systemd-machine-id-setup.*--volume \/etc\/machine-id:\/etc\/machine-id:ro/,
          ),
        },
      ],
    });
  });

  test("in a container when it is a part of the image, and not when it is mounted", async () => {
    await expect(read(id, { container: true })).rejects.toThrow(/image of this container.*--volume/s);
    expect(await read(id, { container: true, mount: file })).toMatchObject({ machineId: id });
    expect(await read(id, { container: false, mount: "/" })).toMatchObject({ machineId: id });
  });
});

test("the kernel tells on which mount a file lies", async () => {
  expect(await systemFacts.mountOf("/proc/sys/kernel/random/boot_id")).toMatch(/^\/proc(\/|$)/);
  expect(await systemFacts.mountOf("/")).toBe("/");
  expect(await systemFacts.read("/proc/no-such-file")).toBeUndefined();
});
