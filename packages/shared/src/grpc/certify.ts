/** Asks the controllers, one after the other, for another certificate of the name that this process has. */
import type { ChannelCredentials } from "@grpc/grpc-js";
import { HoldfastError } from "../errors/holdfast-error.ts";
import { TrustServiceDefinition } from "../gen/holdfast/v1/trust.ts";
import type { Logger } from "../log/logger.ts";
import { type CredentialTexts, isUnusable, takeApart } from "../trust/credential-files.ts";
import { makeRequest } from "../trust/make-certificate.ts";
import { createGrpcChannel, createGrpcClient } from "./client.ts";

export interface CertifyDeps {
  readonly controllers: readonly string[];
  readonly credentials: ChannelCredentials;
  readonly proxy?: string | undefined;
  readonly log: Logger;
}

const timeoutMs = 10_000;

const askOne = async (address: string, key: string, { credentials, proxy, log }: CertifyDeps) => {
  const channel = createGrpcChannel(address, { credentials, ownConnection: true, proxy: proxy ?? "none" });
  try {
    const client = createGrpcClient(TrustServiceDefinition, channel, { log, defaultDeadlineMs: timeoutMs });
    const { certificate, authorities } = await client.renew({ request: await makeRequest(key) });
    const texts = takeApart([certificate, key, authorities]);
    if (!isUnusable(texts)) return texts;
    throw new HoldfastError({
      kind: "internal",
      reason: "CERTIFICATE_UNUSABLE",
      message: `the controller at ${address} answered with something other than a certificate: ${texts.wrong}`,
    });
  } finally {
    channel.close();
  }
};

/** Fails with what the last one said. */
export const certifyBy = async (deps: CertifyDeps, key: string): Promise<CredentialTexts> => {
  let why: unknown = new Error("there is no controller to ask");
  for (const address of deps.controllers)
    try {
      return await askOne(address, key, deps);
    } catch (error) {
      why = error;
    }
  throw why;
};
