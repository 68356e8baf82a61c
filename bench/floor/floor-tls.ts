import { readFileSync } from "node:fs";
import path from "node:path";
import { ServerCredentials } from "@grpc/grpc-js";
import { credentialFiles } from "@holdfast/shared/trust/credential-files";
import { ChannelCredentials, createChannel } from "nice-grpc";

/** Set for the processes of a floor that speaks TLS; without it they are those that they always were. */
export const floorTlsVariable = "FLOOR_TLS_DIR";

export interface FloorTls {
  readonly server: ServerCredentials;
  readonly client: ChannelCredentials;
}

/** A certificate on both ends, verified by the library, and nothing that looks at who it names. Unix sockets have none. */
export const floorTlsOf = (directory: string | undefined): FloorTls | undefined => {
  if (directory === undefined) return undefined;
  const read = (name: string): Buffer => readFileSync(path.join(directory, name));
  const roots = read(credentialFiles.roots);
  const key = read(credentialFiles.key);
  const chain = read(credentialFiles.certificate);
  return {
    server: ServerCredentials.createSsl(roots, [{ private_key: key, cert_chain: chain }], true),
    client: ChannelCredentials.createSsl(roots, key, chain),
  };
};

/** Node takes no address for the name that a client of TLS asks for. */
const named = { "grpc.ssl_target_name_override": "localhost" };

/** Without TLS just `createChannel`. */
export const createFloorChannel = (address: string, tls: FloorTls | undefined): ReturnType<typeof createChannel> =>
  tls === undefined || address.startsWith("unix:") ? createChannel(address) : createChannel(address, tls.client, named);

export const floorTls = floorTlsOf(process.env[floorTlsVariable]);
