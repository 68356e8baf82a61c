import { mkdir } from "node:fs/promises";
import path from "node:path";
import { createChannelCredentials } from "@holdfast/shared/grpc/tls-credentials";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { createTestAuthority, type LeafWish, writeCredentials } from "@holdfast/shared/testing/test-authority";
import { createCertificateKeeper } from "@holdfast/shared/trust/certificate-keeper";
import type { ChannelCredentials } from "nice-grpc";

/** Of one run: a directory each for the services, and what callers dial with. */
export interface BenchCertificates {
  readonly controllerDir: string;
  readonly agentDir: string;
  /** One for both ends, for `localhost`. */
  readonly floorDir: string;
  readonly operator: ChannelCredentials;
  readonly scheduler: ChannelCredentials;
  stop(): void;
}

/** Young, so that no service renews its own meanwhile. */
const notBefore = (): number => Date.now() - 60_000;

export const createBenchCertificates = async (
  dir: string,
  names: { readonly node: string; readonly operator: string; readonly scheduler: string },
): Promise<BenchCertificates> => {
  const authority = await createTestAuthority("bench.test");
  const written = async (name: string, wish: LeafWish): Promise<string> => {
    const directory = path.join(dir, name);
    await mkdir(directory, { recursive: true, mode: 0o700 });
    writeCredentials(directory, await authority.issue({ ...wish, notBefore: notBefore() }), [authority.root]);
    return directory;
  };
  const keepers: ReturnType<typeof createCertificateKeeper>[] = [];
  const caller = async (role: "operator" | "scheduler"): Promise<ChannelCredentials> => {
    const keeper = createCertificateKeeper({
      path: await written(role, { path: `csi/${role}/${names[role]}` }),
      setting: `the certificate of the bench's ${role}`,
      wanted: { roles: [role], name: names[role] },
      log: createMemoryLogger(),
    });
    keepers.push(keeper);
    return createChannelCredentials(keeper);
  };
  return {
    controllerDir: await written("controller", { path: "csi/controller/bench" }),
    agentDir: await written("agent", { path: `csi/node/${names.node}` }),
    floorDir: await written("floor", { names: [{ type: "dns", value: "localhost" }] }),
    operator: await caller("operator"),
    scheduler: await caller("scheduler"),
    stop: () => {
      for (const keeper of keepers) keeper.stop();
    },
  };
};
