import type { AccessMode } from "@holdfast/model/access";
import type { MountLine } from "@holdfast/model/mountinfo";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  defaultAllowedOptions,
  defaultForcedOptions,
  forbiddenOptions,
  missingOptions,
  readsOnly,
  remountOptions,
} from "./mount-options.ts";

const line = (options: readonly string[]): MountLine => ({
  id: 7,
  parent: 1,
  device: "8:2",
  root: "/",
  path: "/hf/publish/x/y",
  options,
  fsType: "ext4",
  source: "/dev/sdb",
  superOptions: "rw",
});
const use = { accessMode: "SINGLE_NODE_WRITER", attachmentMode: "FILE_SYSTEM", readOnly: false } as const;

describe("[O1] what may be asked for", () => {
  test.each([
    [["noatime", "discard"], []],
    [["nfsvers=4.1", "hard,timeo=600"], []],
    [["uid=0"], ["uid="]],
    [["noatime,suid"], ["suid"]],
    [
      ["context=system_u", "password=hunter2"],
      ["context=", "password="],
    ],
    [["noatime,,dev"], ["", "dev"]],
    [["noatime=1"], ["noatime="]],
    [["vers"], ["vers"]],
  ])("%j: %j is not allowed", (flags, names) => {
    expect(forbiddenOptions(flags, defaultAllowedOptions)).toEqual(names);
  });

  test("however options are joined and hidden, one that is not on the list is found, without its value", () => {
    const good = fc.constantFrom("ro", "noatime", "timeo=5", "vers=4");
    const bad = fc.constantFrom("suid", "uid=0", "helper=/bin/sh", "dev", "exec", "SUID", " ro");
    fc.assert(
      fc.property(fc.array(good), bad, fc.array(good), fc.boolean(), (before, wrong, after, joined) => {
        const all = [...before, wrong, ...after];
        const found = forbiddenOptions(joined ? [all.join(",")] : all, defaultAllowedOptions);
        expect(found).toEqual([wrong.includes("=") ? wrong.slice(0, wrong.indexOf("=") + 1) : wrong]);
      }),
    );
  });
});

describe("[O2] what a mount has to have", () => {
  test.each<[readonly string[], Partial<{ readOnly: boolean; accessMode: AccessMode }>, readonly string[]]>([
    [["rw", "nosuid", "nodev", "relatime"], {}, []],
    [["rw", "relatime"], {}, ["nosuid", "nodev"]],
    [["rw", "nosuid", "nodev"], { readOnly: true }, ["ro"]],
    [["rw", "nodev"], { accessMode: "MULTI_NODE_READER_ONLY" }, ["nosuid", "ro"]],
    [["ro", "nosuid", "nodev"], { readOnly: true }, []],
  ])("%j used as %j lacks %j", (options, changes, missing) => {
    expect(missingOptions(line(options), { ...use, ...changes }, defaultForcedOptions)).toEqual(missing);
  });

  test("a device node lacks nothing: nodev would close it", () => {
    const block = { ...use, attachmentMode: "BLOCK_DEVICE", readOnly: true } as const;
    expect(missingOptions(line(["rw"]), block, defaultForcedOptions)).toEqual([]);
  });

  test("reading is a matter of the claim or of its mode", () => {
    expect(readsOnly(use)).toBe(false);
    expect(readsOnly({ ...use, readOnly: true })).toBe(true);
    expect(readsOnly({ ...use, accessMode: "SINGLE_NODE_READER_ONLY" })).toBe(true);
  });

  test("a remount loses none of what is there", () => {
    expect(remountOptions(line(["rw", "noexec", "noatime"]), ["nosuid", "nodev"])).toBe(
      "remount,bind,rw,noexec,noatime,nosuid,nodev",
    );
    expect(remountOptions(line(["rw", "noexec"]), ["nosuid", "ro"])).toBe("remount,bind,noexec,nosuid,ro");
  });
});
