import { mkdir } from "node:fs/promises";
import path from "node:path";
import { loadConfig } from "@holdfast/shared/config/config";
import { createChannelCredentials } from "@holdfast/shared/grpc/tls-credentials";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { certified, tempDirectory } from "@holdfast/shared/testing/certified";
import { createTestAuthority } from "@holdfast/shared/testing/test-authority";
import { describe, expect, onTestFinished, test } from "vitest";
import { cliRun } from "../../../test/cli/cli-run.ts";
import { dialAgent } from "../../../test/support/controller/dial-agent.ts";
import { createApp } from "./app.ts";
import { configSchema } from "./config.ts";

const started = async () => {
  const authority = await createTestAuthority();
  const own = await certified(authority, { path: "csi/controller/c1" });
  const dir = tempDirectory();
  await mkdir(path.join(dir, "cp"), { mode: 0o700 });
  const log = createMemoryLogger();
  const config = loadConfig(configSchema, {
    HOLDFAST_LISTEN: "127.0.0.1:0",
    HOLDFAST_AGENT_LISTEN: "127.0.0.1:0",
    HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
    HOLDFAST_STATE_DIR: path.join(dir, "state"),
    HOLDFAST_PLUGIN_DIR: path.join(dir, "cp"),
    HOLDFAST_TLS_DIR: own.directory,
  });
  const app = createApp(config, { log });
  onTestFinished(() => app.stop());
  await app.start();
  return { authority, app, log };
};

describe("a controller with certificates", () => {
  test("serves an operator, takes the link of a node, and of nothing else", async () => {
    const { authority, app } = await started();
    const ada = await certified(authority, { path: "csi/operator/ada" });
    const n1 = createChannelCredentials((await certified(authority, { path: "csi/node/n1" })).keeper);
    const list = ["node", "list", "--json", "--certs", ada.directory];

    const agent = dialAgent(app.agentAddress(), { credentials: n1, node: "n1" });
    onTestFinished(agent.cut);
    await agent.register({ machineId: "m1", bootId: "b1", journalUid: "j1", rootDir: "/r", version: "1" });
    const listed = await cliRun(list, { address: app.address() });
    expect(listed).toMatchObject({ code: 0, err: "" });
    expect(listed.out).toContain('"n1"');

    const other = dialAgent(app.agentAddress(), {
      credentials: n1,
      node: "n2",
      identity: { role: "node", name: "n1" },
    });
    onTestFinished(other.cut);
    await expect(other.register()).rejects.toMatchObject({});
    expect(await other.over).toMatchObject({ reason: "PERMISSION_DENIED" });

    const plain = await cliRun(["node", "list", "--timeout", "2s"], { address: app.address() });
    expect(plain.code).not.toBe(0);
    expect(plain.err).toContain("--certs");
  });
});
