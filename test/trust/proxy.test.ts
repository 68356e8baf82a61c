/** HOLDFAST_PROXY with certificates: TLS is between agent and controller, and the proxy carries what it cannot read. */
import { writeFileSync } from "node:fs";
import { unimplemented } from "@holdfast/controller/api/unimplemented";
import { type AgentConfig, configSchema } from "@holdfast/node-agent/config";
import { createControllerStreams } from "@holdfast/node-agent/controller-link/controller-stream";
import { keepCertificates } from "@holdfast/node-agent/link-certificates";
import { systemClock } from "@holdfast/shared/async/clock";
import { loadConfig } from "@holdfast/shared/config/config";
import { AgentServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import { createCallSurround } from "@holdfast/shared/grpc/call-surround";
import { certifyBy } from "@holdfast/shared/grpc/certify";
import { createServedMethods } from "@holdfast/shared/grpc/stream/served-methods";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { tempDirectory } from "@holdfast/shared/testing/certified";
import { hasCredentials } from "@holdfast/shared/trust/credential-dir";
import { generateKey } from "@holdfast/shared/trust/make-certificate";
import { expect, onTestFinished, test } from "vitest";
import { type ConnectProxyOptions, startConnectProxy } from "../support/connect-proxy.ts";
import { startImpostor } from "../support/impostor.ts";
import { trustedController } from "./trusted-controller.ts";

const log = createMemoryLogger();
/** A name that the proxy alone knows. */
const name = "controllers.cell:7602";
const login = "me:p%40ss";

const portOf = (address: string): number => Number(address.split(":").pop());

const started = async () => {
  const parts = await trustedController(tempDirectory());
  onTestFinished(() => parts.app.stop());
  return parts;
};

const proxied = async (leadsTo: ConnectProxyOptions["leadsTo"]) => {
  const proxy = await startConnectProxy({ leadsTo, login: decodeURIComponent(login) });
  onTestFinished(proxy.close);
  return { ...proxy, url: `http://${login}@127.0.0.1:${proxy.port}` };
};

type Controller = Awaited<ReturnType<typeof started>>;

/** What an agent without a certificate does by these settings. */
const agentThrough = async ({ at, enrolArgs }: Controller, proxy: string) => {
  const { token, pin } = await enrolArgs("node-a", "unused");
  writeFileSync(at("token"), `${token}\n`);
  const config: AgentConfig = loadConfig(configSchema, {
    HOLDFAST_NODE: "node-a",
    HOLDFAST_TLS_DIR: at("agent"),
    HOLDFAST_CONTROLLERS: name,
    HOLDFAST_ENROL_TOKEN_FILE: at("token"),
    HOLDFAST_ENROL_PIN: pin,
    HOLDFAST_PROXY: proxy,
  });
  const end = new AbortController();
  onTestFinished(() => end.abort());
  return { token, config, life: { config, log, signal: end.signal } };
};

test("an agent enrols, links and renews through it; it is asked for names, and carries nothing but TLS", async () => {
  const controller = await started();
  const proxy = await proxied(() => ({ port: portOf(controller.app.agentAddress()) }));
  const { token, config, life } = await agentThrough(controller, proxy.url);
  const credentials = await keepCertificates(life);
  if (credentials === undefined) throw new Error("no credentials");

  const streams = createControllerStreams({
    ...{ node: "node-a", instance: "i1", proxy: config.proxy, newId: () => "s1", clock: systemClock, log, credentials },
    served: createServedMethods({
      definition: AgentServiceDefinition,
      implementation: unimplemented(AgentServiceDefinition, {}),
      surround: createCallSurround({ log, address: () => "agent" }),
    }),
  });
  const stream = streams({ target: name, name }, () => undefined);
  const host = { machineId: "m1", bootId: "b1", journalUid: "j1", rootDir: "/r", version: "1" };
  await stream.client.register({ header: { name: "node-a", instance: "i1", ...host }, plugins: [] });
  expect(JSON.stringify(await controller.asAda(["node", "list"]))).toContain('"node-a"');
  onTestFinished(() => stream.end("the test is over"));
  const asked = proxy.asked.length;
  await certifyBy({ controllers: [name], credentials, proxy: config.proxy, log }, generateKey());
  expect(proxy.asked.length).toBeGreaterThan(asked);

  expect(new Set(proxy.asked)).toEqual(new Set([name]));
  const carried = proxy.sent.map((chunks) => Buffer.concat(chunks));
  expect(carried.length).toBeGreaterThanOrEqual(4);
  for (const bytes of carried) {
    // A handshake of TLS; the name of the caller and its token are behind it.
    expect(bytes.subarray(0, 2)).toEqual(Buffer.from([0x16, 0x03]));
    for (const word of ["node-a", token, "spiffe", "p@ss"]) expect(bytes.includes(word), word).toBe(false);
  }
});

test("a proxy that answers in the controller's place hears no token, and no call of an agent that has a certificate", async () => {
  const controller = await started();
  const { port, heard } = await startImpostor();
  let honest = false;
  const proxy = await proxied(() => ({ port: honest ? portOf(controller.app.agentAddress()) : port }));
  const { config, life } = await agentThrough(controller, proxy.url);
  await expect(keepCertificates(life)).rejects.toThrow("the token was not sent");
  expect(hasCredentials(config.tlsDir ?? "")).toBe(false);

  honest = true;
  const credentials = await keepCertificates(life);
  if (credentials === undefined) throw new Error("no credentials");
  honest = false;
  const renewal = certifyBy({ controllers: [name], credentials, proxy: config.proxy, log }, generateKey());
  await expect(renewal).rejects.toMatchObject({ kind: "unavailable" });
  expect(Buffer.concat(heard)).toHaveLength(0);
});

test("one that wants another login is named, and no controller is asked", async () => {
  const controller = await started();
  const proxy = await proxied(() => ({ port: portOf(controller.app.agentAddress()) }));
  const { life } = await agentThrough(controller, proxy.url.replace("me:", "you:"));
  await expect(keepCertificates(life)).rejects.toThrow("the proxy answers 407");
  expect(proxy.sent).toEqual([]);
});
