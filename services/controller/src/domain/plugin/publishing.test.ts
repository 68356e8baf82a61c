import { describe, expect, test } from "vitest";
import { defaultProfile } from "./plugin-profile.ts";
import { checkTokenRequests, publishingOf } from "./publishing.ts";

const vault = { audience: "vault", ttlSeconds: 3600 };
const sts = { audience: "sts", ttlSeconds: 600 };
const none = { identityTokens: [], requiresRepublish: false };
const again = { ...defaultProfile, requiresRepublish: true };
const minute = 60_000;

describe("what a publication is told", () => {
  test("is nothing where nobody asks for it", () => {
    expect(publishingOf(defaultProfile, none)).toEqual({ tokens: [], inVolumeContext: false, againMs: 0 });
  });

  test("is what the profile names; a volume's own names stand in the place of all of them", () => {
    const profile = { ...defaultProfile, tokenRequests: [vault], tokensInVolumeContext: true };
    expect(publishingOf(profile, none)).toEqual({ tokens: [vault], inVolumeContext: true, againMs: 0 });
    expect(publishingOf(profile, { ...none, identityTokens: [sts] }).tokens).toEqual([sts]);
  });

  test("has a life within the bounds, whatever an earlier version has stored", () => {
    const identityTokens = [
      { audience: "a", ttlSeconds: 1 },
      { audience: "b", ttlSeconds: 90_000 },
    ];
    const { tokens } = publishingOf(defaultProfile, { ...none, identityTokens });
    expect(tokens.map(({ ttlSeconds }) => ttlSeconds)).toEqual([600, 3600]);
  });
});

describe("how often it is published", () => {
  test.each([
    ["once, unless somebody asks", { ...defaultProfile, tokenRequests: [vault] }, none, 0],
    ["each minute without tokens", again, none, minute],
    ["each minute when the volume asks", defaultProfile, { ...none, requiresRepublish: true }, minute],
    ["as it is set", { ...again, republishIntervalMs: 5 * minute }, none, 5 * minute],
    ["before 80 % of the shortest life", { ...again, tokenRequests: [vault, sts] }, none, 8 * minute],
    ["sooner when that is set", { ...again, tokenRequests: [vault], republishIntervalMs: minute }, none, minute],
    ["and no later", { ...again, tokenRequests: [sts], republishIntervalMs: 60 * minute }, none, 8 * minute],
  ] as const)("%s", (_how, profile, policy, ms) => {
    expect(publishingOf(profile, policy).againMs).toBe(ms);
  });
});

test("requests are refused with every violation", () => {
  const many = [vault, vault, { audience: "", ttlSeconds: 599 }, sts, { audience: "x", ttlSeconds: 3601 }];
  expect(checkTokenRequests("f", "ttl", many).map(({ field }) => field)).toEqual([
    "f",
    "f[1].audience",
    "f[2].audience",
    "f[2].ttl",
    "f[4].ttl",
  ]);
});
