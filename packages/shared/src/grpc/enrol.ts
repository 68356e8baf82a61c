/**
 * Makes this host a node: with a token for its name, and the pin of the root that its controllers lead to.
 *
 * EN1 The token goes to a controller whose certificate leads to the pinned root, and to nothing else. EN2 The key never leaves the host.
 * EN3 What came back is judged as the agent will judge it, before anything is written.
 */
import { hostname } from "node:os";
import { HoldfastError } from "../errors/holdfast-error.ts";
import { TrustServiceDefinition } from "../gen/holdfast/v1/trust.ts";
import type { Logger } from "../log/logger.ts";
import { type CredentialTexts, isUnusable, takeApart } from "../trust/credential-files.ts";
import { judgeCredentials } from "../trust/judge-credentials.ts";
import { generateKey, makeRequest, urisIn } from "../trust/make-certificate.ts";
import { createGrpcChannel, createGrpcClient } from "./client.ts";
import { findPinnedRoot } from "./pinned-root.ts";
import { createPinnedCredentials } from "./tls-credentials.ts";

export interface EnrolWish {
  readonly address: string;
  readonly pin: string;
  readonly token: string;
  /** Empty: whichever the token names. */
  readonly node: string;
  readonly proxy?: string | undefined;
  readonly log: Logger;
}

export interface Enrolled {
  readonly node: string;
  readonly texts: CredentialTexts;
}

const timeoutMs = 10_000;
const spiffe = /^spiffe:\/\/([^/]+)$/;

const wrongAnswer = (why: string): HoldfastError =>
  new HoldfastError({
    kind: "internal",
    reason: "CERTIFICATE_UNUSABLE",
    message: `the controller answered with a certificate that this host (${hostname()}) cannot use: ${why}; nothing was written, and the token is used up: have another one made`,
  });

/** A root of ours says its trust domain; one from elsewhere may not. */
const trustDomainOf = async (root: string): Promise<string | undefined> => {
  const [uri = ""] = await urisIn(root);
  return spiffe.exec(uri)?.[1];
};

export const enrol = async ({ address, pin, token, node, proxy, log }: EnrolWish): Promise<Enrolled> => {
  const root = await findPinnedRoot({ address, pin, proxy, timeoutMs });
  const key = generateKey(); // EN2
  const credentials = createPinnedCredentials(root, await trustDomainOf(root)); // EN1
  const channel = createGrpcChannel(address, { credentials, ownConnection: true, proxy: proxy ?? "none" });
  try {
    const client = createGrpcClient(TrustServiceDefinition, channel, { log, defaultDeadlineMs: timeoutMs });
    const answer = await client.enrol({ token, node, request: await makeRequest(key) });
    const texts = takeApart([answer.certificate, key, answer.authorities]);
    if (isUnusable(texts)) throw wrongAnswer(texts.wrong);
    const judged = judgeCredentials(texts, { roles: ["node"], name: node === "" ? answer.node : node }); // EN3
    if (isUnusable(judged)) throw wrongAnswer(judged.wrong);
    return { node: answer.node, texts };
  } finally {
    channel.close();
  }
};
