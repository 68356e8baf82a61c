import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createDriver, type Driver, live, writer } from "../test-driver.ts";

const rulesBroken = (driver: Driver): string[] => driver.backend.violations().map((violation) => violation.rule);

/** Text of exactly so many bytes that begins as told, with characters of one to four bytes. */
const textOf = (bytes: number, prefix: string): fc.Arbitrary<string> =>
  fc.constantFrom("x", "é", "€", "😀").map((character) => {
    const left = bytes - Buffer.byteLength(prefix);
    const size = Buffer.byteLength(character);
    return prefix + "x".repeat(left % size) + character.repeat(Math.floor(left / size));
  });

const obeys = (limit: number, rule: string, prefix: string, act: (driver: Driver, text: string) => unknown): void => {
  const sized = fc
    .integer({ min: limit - 3, max: limit + 3 })
    .chain((bytes) => textOf(bytes, prefix).map((text) => ({ bytes, text })));
  fc.assert(
    fc.property(sized, ({ bytes, text }) => {
      const driver = createDriver();
      act(driver, text);
      expect(rulesBroken(driver)).toEqual(bytes > limit ? [rule] : []);
    }),
  );
};

describe("limits count bytes, and the last byte allowed is allowed", () => {
  test("128 of a string", () => {
    obeys(128, "string-oversize", "", (driver, name) =>
      driver.ask("CreateVolume", { name, volumeCapabilities: [writer] }),
    );
  });

  test("4096 of a map, keys and values together", () => {
    obeys(4096, "map-oversize", "abcd", (driver, text) =>
      driver.ask("CreateVolume", { name: "one", volumeCapabilities: [writer], parameters: { abcd: text.slice(4) } }),
    );
  });

  test("4096 of all mount flags", () => {
    obeys(4096, "mount-flags-oversize", "x", (driver, text) => {
      const mountFlags = [text.slice(0, 1), text.slice(1)];
      const mount = { fsType: "", mountFlags, volumeMountGroup: "" };
      driver.ask("CreateVolume", { name: "one", volumeCapabilities: [{ ...writer, mount }] });
    });
  });

  test("128 of a path", () => {
    obeys(128, "path-oversize", "/", (driver, text) =>
      driver.ask("NodeStageVolume", { ...live(driver, "attached"), stagingTargetPath: text }),
    );
  });
});
