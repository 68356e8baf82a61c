import { type ErrorKind, HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import {
  ReleaseClaimsResponse,
  RequestClaimsResponse,
} from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { ClaimState, VolumeTemplate } from "@holdfast/shared/gen/holdfast/v1/claim";
import { expect, test } from "vitest";
import { templateText } from "../workloads/convert-claim.ts";
import { type ClaimsClient, createControllerLinkClaims } from "./controller-link-claims.ts";

const name = { namespace: "ns", workload: "web" };
const anyTime = new AbortController().signal;

/** Controllers by address: what they answer with, an error or nothing wrong. */
function startLink(answers: Record<string, { readonly kind: ErrorKind; readonly reason: string } | "OK">) {
  const asked: string[] = [];
  const requests: unknown[] = [];
  const answer = (address: string): void => {
    asked.push(address);
    const how = answers[address] ?? "OK";
    if (how !== "OK") throw new HoldfastError({ ...how, message: `of ${address}` });
  };
  const clientAt = (address: string): ClaimsClient => ({
    async requestClaims(request) {
      requests.push(request);
      answer(address);
      return RequestClaimsResponse.fromPartial({ claims: [{ uid: "u", state: ClaimState.CLAIM_STATE_ACTIVE }] });
    },
    async releaseClaims(request) {
      requests.push(request);
      answer(address);
      return ReleaseClaimsResponse.fromPartial({});
    },
  });
  const claims = createControllerLinkClaims({
    node: "node-a",
    controllers: () => Object.keys(answers).map((address) => ({ address, client: clientAt(address) })),
  });
  return { claims, asked, requests, answers };
}

test("one that is not there is passed over, and the one that answered is asked first from then on", async () => {
  const gone = { kind: "unavailable", reason: "UNAVAILABLE" } as const;
  const { claims, asked, answers } = startLink({
    one: gone,
    two: { kind: "deadline", reason: "DEADLINE" },
    three: "OK",
  });
  expect(await claims.watch({ ...name, claimUids: ["u"] }, anyTime)).toMatchObject([{ uid: "u", state: "ACTIVE" }]);
  expect(asked).toEqual(["one", "two", "three"]);
  await claims.release({ ...name, claimUids: [], ticket: "" }, anyTime);
  expect(asked.slice(3)).toEqual(["three"]);
  answers["three"] = gone;
  await expect(claims.release({ ...name, claimUids: [], ticket: "" }, anyTime)).rejects.toMatchObject({
    kind: "unavailable",
    reason: "CONTROLLER_UNAVAILABLE",
  });
  expect(asked.slice(4)).toEqual(["three", "one", "two"]);
});

test("a refusal is an answer: no other is asked", async () => {
  for (const refusal of [
    { kind: "precondition", reason: "CLAIM_CONFLICT" },
    { kind: "unavailable", reason: "STORE_UNVETTED" },
  ] as const) {
    const { claims, asked } = startLink({ one: refusal, two: "OK" });
    const order = { ...name, claims: [], requestId: "", after: [], ticket: "" };
    await expect(claims.request(order, anyTime)).rejects.toMatchObject(refusal);
    expect(asked).toEqual(["one"]);
  }
});

test("speaks for its own node; queues only behind what it replaces; a watch names lives and asks for nothing", async () => {
  const { claims, requests } = startLink({ one: "OK" });
  await claims.request({ ...name, claims: [], requestId: "r", after: [], ticket: "t" }, anyTime);
  await claims.request({ ...name, claims: [], requestId: "r", after: ["old"], ticket: "" }, anyTime);
  await claims.watch({ ...name, claimUids: ["u"] }, anyTime);
  await claims.release({ ...name, claimUids: ["u"], ticket: "" }, anyTime);
  await claims.mayRelease({ ...name, ticket: "t" }, anyTime);
  await claims.release({ ...name, claimUids: [], ticket: "t" }, anyTime);
  expect(requests).toMatchObject([
    { ...name, node: "node-a", queue: { enabled: false }, afterWorkloads: [], ticket: "t" },
    { ...name, node: "node-a", queue: { enabled: true }, afterWorkloads: ["old"] },
    { ...name, node: "node-a", claimUids: ["u"] },
    { ...name, node: "node-a", claimUids: ["u"] },
    { ...name, node: "node-a", ticket: "t", dryRun: true },
    { ...name, node: "node-a", claimUids: [], ticket: "t" },
  ]);
  const template = VolumeTemplate.fromPartial({ plugin: "csi.example", capacity: { requiredBytes: 10n } });
  const brought = { alias: "scratch", volume: "web-scratch-1", readOnly: false, capability: undefined };
  await claims.request(
    { ...name, claims: [{ ...brought, template: templateText(template) }], requestId: "r", after: [], ticket: "" },
    anyTime,
  );
  expect(requests[6]).toMatchObject({ claims: [{ alias: "scratch", volume: "", template }] });
  expect(requests[2]).not.toHaveProperty("claims");
  expect(requests[2]).not.toHaveProperty("queue");
});
