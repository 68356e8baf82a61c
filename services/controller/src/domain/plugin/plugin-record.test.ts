import type { Tri } from "@holdfast/model/tri";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { defaultProfile } from "./plugin-profile.ts";
import { agreedCapabilities, newPluginRecord, rememberedOf, withProfile, withTold } from "./plugin-record.ts";

const attach = "controller:PUBLISH_UNPUBLISH_VOLUME";
const fresh = newPluginRecord("p", 1);

describe("what is remembered of a plugin", () => {
  it("[W8] keeps what a version told last when its next fingerprint fails: not known is never no", () => {
    const told = withTold(fresh, "1.0", { [attach]: "yes", "controller:LIST_VOLUMES": "no" }, 2);
    const failed = withTold(told, "1.0", { [attach]: "unknown", "controller:LIST_VOLUMES": "unknown" }, 3);
    expect(failed).toBe(told);
    expect(rememberedOf(failed, "1.0")[attach]).toBe("yes");
  });

  it("is of one version: another one is not known before it told", () => {
    const told = withTold(fresh, "1.0", { [attach]: "yes" }, 2);
    expect(rememberedOf(told, "2.0")).toEqual({});
    const both = withTold(told, "2.0", { [attach]: "no" }, 3);
    expect([rememberedOf(both, "1.0")[attach], rememberedOf(both, "2.0")[attach]]).toEqual(["yes", "no"]);
    expect(rememberedOf(both, "")[attach]).toBe("no");
    expect(rememberedOf(undefined, "1.0")).toEqual({});
  });

  it("is the same record when it is no news, in whatever order it was told", () => {
    const told = withTold(fresh, "1.0", { b: "yes", a: "no" }, 2);
    expect(withTold(told, "1.0", { a: "no", b: "yes" }, 9)).toBe(told);
  });

  it("comes from both halves together, and a newer word of one replaces an older", () => {
    const half = withTold(fresh, "1.0", { [attach]: "yes" }, 2);
    const whole = withTold(half, "1.0", { "node:STAGE_UNSTAGE_VOLUME": "yes" }, 3);
    expect(rememberedOf(whole, "1.0")).toEqual({ [attach]: "yes", "node:STAGE_UNSTAGE_VOLUME": "yes" });
    expect(rememberedOf(withTold(whole, "1.0", { [attach]: "no" }, 4), "1.0")[attach]).toBe("no");
  });

  it("is bounded: four versions, the latest first", () => {
    const many = ["1", "2", "3", "4", "5"].reduce((record, v, i) => withTold(record, v, { a: "yes" }, i), fresh);
    expect(many.versions.map(({ version }) => version)).toEqual(["5", "4", "3", "2"]);
  });

  it("has no profile when it only repeats the defaults", () => {
    const set = withProfile(fresh, { ...defaultProfile, maxConcurrentCalls: 3 });
    expect(set.profile?.maxConcurrentCalls).toBe(3);
    expect(withProfile(set, defaultProfile)).not.toHaveProperty("profile");
  });
});

describe("what instances say together", () => {
  it("[W8] is known where they agree, whatever the order, and silence takes nothing away", () => {
    const tri = fc.constantFrom<Tri>("yes", "no", "unknown");
    const said = fc.array(fc.dictionary(fc.constantFrom("a", "b", "c"), tri), { maxLength: 5 });
    fc.assert(
      fc.property(said, (all) => {
        const agreed = agreedCapabilities(all);
        expect(agreedCapabilities(all.toReversed())).toEqual(agreed);
        for (const name of ["a", "b", "c"]) {
          const words = new Set(all.map((one) => one[name] ?? "unknown"));
          words.delete("unknown");
          const [only] = words;
          expect(agreed[name] ?? "unknown").toBe(words.size === 1 ? only : "unknown");
        }
      }),
    );
  });
});
