import { createGrpcChannel, type GrpcChannel } from "@holdfast/shared/grpc/client";
import { anonymous } from "@holdfast/shared/grpc/identity";
import { callers, type IdentityTransport } from "./callers.ts";

/** Identities by the word of the caller, as where there are no certificates; one of a foreign authority is then nobody. */
export const metadataTransport = (): IdentityTransport => {
  const channels = new Map<string, GrpcChannel>();
  return {
    name: "metadata",
    dial(caller, address) {
      const channel = channels.get(address) ?? createGrpcChannel(address);
      channels.set(address, channel);
      const identity = caller === "foreign CA" ? anonymous : callers[caller];
      return { channel, identity: identity.role === "anonymous" ? undefined : identity };
    },
    close() {
      for (const channel of channels.values()) channel.close();
    },
  };
};
