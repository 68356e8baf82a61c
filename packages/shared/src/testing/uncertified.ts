import { ChannelCredentials } from "@grpc/grpc-js";

/** Of a caller over TLS that shows no certificate, and believes whatever server has one of this authority. */
export const uncertified = (root: string): ChannelCredentials =>
  ChannelCredentials.createSsl(Buffer.from(root), null, null, { checkServerIdentity: () => undefined });
