import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { Permit } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import type { IssueTokensResponse } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { expect, test } from "vitest";
import { anyCaller, volumeRef } from "../testing/model-agent.ts";
import { createControllerLinkTokens, type TokensClient } from "./controller-link-tokens.ts";

const held = { claimUid: "a", epoch: { gen: 1, ctr: 5 } };
const key = "csi.storage.k8s.io/serviceAccount.tokens";
const answer: IssueTokensResponse = {
  tokens: [{ audience: "vault", token: "head.body.signature", expiresAt: new Date(1_800_000_000_000) }],
  inVolumeContext: false,
  publish: undefined,
};

const source = (...clients: readonly TokensClient["issueTokens"][]) =>
  createControllerLinkTokens({
    node: "n1",
    instance: "i1",
    controllers: () => clients.map((issueTokens, i) => ({ address: `c${i}`, client: { issueTokens } })),
  });

test("tokens come as KEP-5538 has them, asked for the claim as it is held", async () => {
  const asked: unknown[] = [];
  const { tokens } = source(async (request) => {
    asked.push(request);
    return answer;
  });
  const told = { [key]: '{"vault":{"token":"head.body.signature","expirationTimestamp":"2027-01-15T08:00:00Z"}}' };
  expect(await tokens(volumeRef, held, anyCaller)).toEqual({
    secrets: told,
    volumeContext: {},
    sensitive: { "token 0": "head.body.signature", "signature 0": "signature" },
  });
  const { namespace, volume } = volumeRef;
  expect(asked).toEqual([
    { node: "n1", namespace, volume, claimUid: "a", epoch: { gen: 1n, ctr: 5n }, instance: "i1", again: false },
  ]);
});

test("they stand in volume_context where the profile says that the plugin is old, and nowhere when there are none", async () => {
  const old = await source(async () => ({ ...answer, inVolumeContext: true })).tokens(volumeRef, held, anyCaller);
  expect(old.volumeContext).toEqual(old.secrets);
  const none = await source(async () => ({ ...answer, tokens: [] })).tokens(volumeRef, held, anyCaller);
  expect(none).toEqual({ secrets: {}, volumeContext: {}, sensitive: {} });
});

test("the next controller is asked when one is away, and not when one refuses", async () => {
  const failing = (kind: "unavailable" | "precondition", reason: string) => async (): Promise<never> => {
    throw new HoldfastError({ kind, reason, message: "no" });
  };
  const second = async () => answer;
  await source(failing("unavailable", "UNAVAILABLE"), second).tokens(volumeRef, held, anyCaller);
  const refused = source(failing("precondition", "CLAIM_NOT_HELD"), second).tokens(volumeRef, held, anyCaller);
  await expect(refused).rejects.toMatchObject({ reason: "CLAIM_NOT_HELD" });
});

test("without a permit nothing is wanted again", async () => {
  expect(await source(async () => answer).again(volumeRef, held, anyCaller)).toBeUndefined();
});

test("the permit of another claim is none", async () => {
  const { namespace, volume, volumeUid, externalId, plugin } = volumeRef;
  const epoch = { gen: 1n, ctr: 5n };
  const permit = Permit.fromPartial({
    ...{ namespace, volume, volumeUid, externalId, plugin, claimUid: "a", workload: "w", alias: "data", node: "n1" },
    ...{ nodeEpoch: 1n, epoch, oldestLiveEpoch: epoch, accessMode: 1, attachmentMode: 1, republishMs: 1_000 },
  });
  const { again } = source(async () => ({ ...answer, publish: { permit, vetting: undefined } }));
  const given = await again(volumeRef, held, anyCaller);
  expect(given?.order.contents.republishMs).toBe(1_000);
  expect(given?.tokens.secrets).toHaveProperty([key]);
  await expect(again(volumeRef, { ...held, claimUid: "b" }, anyCaller)).rejects.toMatchObject({ reason: "INTERNAL" });
  await expect(again({ ...volumeRef, volumeUid: "other" }, held, anyCaller)).rejects.toMatchObject({
    reason: "INTERNAL",
  });
});
