/** Callers over TLS: each with a certificate that an authority has signed, one with none, one of another authority, and one on a unix socket. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createGrpcChannel, type GrpcChannel, type GrpcChannelOptions } from "@holdfast/shared/grpc/client";
import { createChannelCredentials } from "@holdfast/shared/grpc/tls-credentials";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { createTestAuthority, type TestAuthority, writeCredentials } from "@holdfast/shared/testing/test-authority";
import { uncertified } from "@holdfast/shared/testing/uncertified";
import { createCertificateKeeper } from "@holdfast/shared/trust/certificate-keeper";
import { certifiedRoles } from "@holdfast/shared/trust/spiffe-id";
import { type Column, callers, columns, type IdentityTransport } from "./callers.ts";

export const certificateTransport = async (): Promise<IdentityTransport> => {
  const dir = mkdtempSync(path.join(tmpdir(), "hf-rights-"));
  const own = await createTestAuthority();
  const foreign = await createTestAuthority("test.example", "elsewhere");
  const keepers: { stop(): unknown }[] = [];
  const channels = new Map<string, GrpcChannel>();

  const bearer = async (name: string, id: string, by: TestAuthority) => {
    const directory = path.join(dir, name);
    writeCredentials(directory, await by.issue({ path: `csi/${id}` }), [own.root, by.root]);
    const log = createMemoryLogger();
    const keeper = createCertificateKeeper({
      path: directory,
      setting: "TEST",
      wanted: { roles: certifiedRoles },
      log,
    });
    keepers.push(keeper);
    return { directory, keeper };
  };

  const server = await bearer("server", "controller/c1", own);
  const credentials = new Map<Column, GrpcChannelOptions["credentials"]>();
  for (const column of columns) {
    if (column === "local") continue;
    const { role, name } = callers[column];
    if (role === "anonymous") credentials.set(column, uncertified(own.root));
    else {
      // There is one monitor, and its certificate has no name.
      const id = role === "monitor" ? role : `${role}/${name}`;
      const { keeper } = await bearer(column.replaceAll(" ", "-"), id, column === "foreign CA" ? foreign : own);
      credentials.set(column, createChannelCredentials(keeper));
    }
  }

  return {
    tlsDir: server.directory,
    certificates: { keeper: server.keeper },
    dial(caller, address) {
      const key = `${caller} ${address}`;
      const options = { ownConnection: true, maxMessageBytes: 256 * 1024, credentials: credentials.get(caller) };
      const channel = channels.get(key) ?? createGrpcChannel(address, options);
      channels.set(key, channel);
      return channel;
    },
    async close() {
      for (const channel of channels.values()) channel.close();
      for (const keeper of keepers) await keeper.stop();
      rmSync(dir, { recursive: true, force: true });
    },
  };
};
