import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { AgentServiceDefinition, ReleaseRequest } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import { createTestAuthority, type TestAuthority, writeCredentials } from "@holdfast/shared/testing/test-authority";
import { ClientError, createClient, Status } from "nice-grpc";
import { afterEach, expect, test } from "vitest";
import { createFloorProcesses } from "../bench/floor/floor-processes.ts";
import { createFloorChannel, floorTlsOf, floorTlsVariable } from "../bench/floor/floor-tls.ts";
import { writeFloorVolumes } from "../bench/floor/floor-volumes.ts";

const dir = mkdtempSync(path.join(tmpdir(), "hf-floor-"));
const ends: (() => unknown)[] = [() => rmSync(dir, { recursive: true, force: true })];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** A certificate for both ends, and the root that its bearer trusts. */
const written = async (name: string, signer: TestAuthority, trusted: TestAuthority): Promise<string> => {
  const directory = path.join(dir, name);
  const names = [{ type: "dns", value: "localhost" }] as const;
  writeCredentials(directory, await signer.issue({ names }), [trusted.root]);
  return directory;
};

/** A ratio by TLS beside a floor without would say nothing. */
test("a floor that has certificates answers nobody without one of its authority", async () => {
  const [authority, foreign] = [await createTestAuthority("bench.test"), await createTestAuthority("other.test")];
  const own = await written("own", authority, authority);
  const { start, stop } = createFloorProcesses({ [floorTlsVariable]: own });
  ends.push(stop);
  const volumes = path.join(dir, "volumes.json");
  writeFloorVolumes(volumes, []);
  const { address } = await start("agent", volumes, path.join(dir, "none.sock"), path.join(dir, "journal"));

  const asked = async (certificate: string | undefined): Promise<Status | undefined> => {
    const channel = createFloorChannel(address, floorTlsOf(certificate));
    const call = createClient(AgentServiceDefinition, channel).release(ReleaseRequest.fromPartial({ volume: "v0" }));
    const error = await call.catch((reason: unknown) => reason).finally(() => channel.close());
    return error instanceof ClientError ? error.code : undefined;
  };
  // Its handler knows no volume here, and says so.
  expect(await asked(own)).toBe(Status.UNKNOWN);
  expect(await asked(undefined)).toBe(Status.UNAVAILABLE);
  expect(await asked(await written("foreign", foreign, authority))).toBe(Status.UNAVAILABLE);
});
