import { describe, expect, test } from "vitest";
import { mountOptionProblem, mountOptionsIn, offeredMountOptions } from "./mount-options.ts";
import { parseMutable, parseParameters, parseSnapshotParameters, withMutable } from "./parameters.ts";

describe("parseParameters", () => {
  test("takes what is known, and leaves out what is for others", () => {
    const { value, violations } = parseParameters(
      {
        type: "image",
        fsType: "xfs",
        live: "allow",
        "csi.storage.k8s.io/pvc/name": "claim",
        "holdfast.dev/volume": "ns/v",
        mountOptions: "noatime",
        "label.team": "a",
      },
      { "label.team": "b", "label.tier": "gold" },
    );
    expect(violations).toEqual([]);
    expect(value).toEqual({
      type: "image",
      fsType: "xfs",
      live: true,
      fixed: { type: "image", fsType: "xfs", live: "allow" },
      // "They win over `parameters` where both have a key."
      mutable: { mountOptions: "noatime", "label.team": "b", "label.tier": "gold" },
    });
  });

  test("says all that is wrong at once, with what there is", () => {
    const { value, violations } = parseParameters(
      { type: "tape", fstype: "xfs", fsType: "zfs", constructor: "x" },
      { mountOptions: "noatime, nobarrier,suid", "label.": "x", "label.long": "x".repeat(257), type: "image" },
    );
    expect(value).toMatchObject({ type: undefined, fsType: undefined });
    const known = "there are type, fsType, live, mountOptions, label.<key>";
    expect(violations).toEqual([
      `parameter type: is "tape", and may be directory or image`,
      `parameter "fstype" is unknown; ${known}`,
      `parameter fsType: is "zfs", and may be ext4 or xfs`,
      `parameter "constructor" is unknown; ${known}`,
      expect.stringMatching(/^mutable parameter mountOptions: mount option "nobarrier" is not offered; there are /),
      expect.stringMatching(/^mutable parameter mountOptions: mount option "suid" is not offered; there are /),
      `mutable parameter "label." is unknown; there are mountOptions, label.<key>`,
      "mutable parameter label.long: is 257 characters long, and may be 256",
      `mutable parameter "type" is unknown; there are mountOptions, label.<key>`,
    ]);
  });
});

test("a change keeps what it leaves out, and takes away what it leaves empty", () => {
  const before = { mountOptions: "noatime", "label.a": "1" };
  expect(parseMutable({ mountOptions: "" }).violations).toEqual([]);
  expect(withMutable(before, { mountOptions: "", "label.b": "2" })).toEqual({ "label.a": "1", "label.b": "2" });
});

test("snapshots know `live` alone", () => {
  expect(parseSnapshotParameters({ live: "allow", "csi.storage.k8s.io/x": "y" })).toEqual({
    value: { live: true, own: { live: "allow" } },
    violations: [],
  });
  expect(parseSnapshotParameters({}).value.live).toBe(false);
  expect(parseSnapshotParameters({ live: "yes", dead: "no" }).violations).toEqual([
    `parameter live: is "yes", and may be allow or refuse`,
    `parameter "dead" is unknown; there is live`,
  ]);
});

describe("mount options", () => {
  test("nothing that costs data, opens a door, or has a field of its own", () => {
    for (const option of [
      "ro",
      "rw",
      "nobarrier",
      "data=writeback",
      "suid",
      "dev",
      "remount",
      "loop",
      "uid=0",
      "__proto__",
    ])
      expect(mountOptionProblem(option, undefined)).toContain(`${JSON.stringify(option)} is not offered`);
    for (const option of offeredMountOptions) expect(mountOptionProblem(option, undefined)).toBeUndefined();
  });

  test("some are of one filesystem", () => {
    expect(mountOptionProblem("data=journal", "ext4")).toBeUndefined();
    expect(mountOptionProblem("data=journal", "xfs")).toBe(
      `mount option "data=journal" is one of ext4, and not of xfs`,
    );
  });

  test("a list may have blanks", () => {
    expect(mountOptionsIn(" noatime, ,discard,")).toEqual(["noatime", "discard"]);
  });
});
