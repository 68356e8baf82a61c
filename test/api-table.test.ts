/**
 * docs/api.md says of every RPC whether this version has it. Here both services run, every RPC is called with an empty request, and
 * NOT_IMPLEMENTED has to come back from exactly those that the table calls "not yet".
 */
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createApp as createController } from "@holdfast/controller/app";
import { configSchema as controllerSchema } from "@holdfast/controller/config";
import { createApp as createAgent } from "@holdfast/node-agent/app";
import { configSchema as agentSchema } from "@holdfast/node-agent/config";
import { type FakeController, serveFakeController } from "@holdfast/node-agent/testing/fake-controller";
import { machineIdFile } from "@holdfast/node-agent/testing/machine-id-file";
import { loadConfig } from "@holdfast/shared/config/config";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { PluginHostServiceDefinition } from "@holdfast/shared/gen/holdfast/agent/v1/plugin_host";
import { WorkloadServiceDefinition } from "@holdfast/shared/gen/holdfast/agent/v1/workload";
import { AgentServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import {
  AgentLinkServiceDefinition,
  ControllerLinkServiceDefinition,
} from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";
import { createGrpcChannel, createGrpcClient, type GrpcChannel } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { onController } from "./access/methods.ts";
import { openAgentStream } from "./harness/agent-stream.ts";
import { until } from "./harness/until.ts";
import { listFiles, readText } from "./support/architecture-source.ts";

const root = path.resolve(import.meta.dirname, "..");

/** On the controller's address for agents, and there alone. */
const forAgents = [ControllerLinkServiceDefinition];
/** On no address: calls over the stream between the two. */
const overStream = [AgentServiceDefinition, AgentLinkServiceDefinition];
/** On the agent's local socket, and there alone. */
const onLocalSocket = [WorkloadServiceDefinition, PluginHostServiceDefinition];
const every = [...onController, ...forAgents, ...overStream, ...onLocalSocket];

interface Method {
  readonly name: string;
  readonly requestStream: boolean;
  readonly responseStream: boolean;
}

interface Row {
  readonly rpc: string;
  readonly state: string;
}

const rowPattern = /^\| `([\w.]+\/\w+)` \| (\S[^|]*?) \|/;

const readTable = async (): Promise<readonly Row[]> =>
  (await readFile(path.join(root, "docs/api.md"), "utf8")).split("\n").flatMap((line) => {
    const [, rpc, state] = rowPattern.exec(line) ?? [];
    return rpc === undefined || state === undefined ? [] : [{ rpc, state }];
  });

/** Every RPC that a .proto of ours declares. */
const declared = (): readonly string[] =>
  listFiles(root, "proto/holdfast", /\.proto$/).flatMap((file) => {
    const text = readText(root, file).replace(/\/\/.*$/gm, "");
    const pkg = /^package ([\w.]+);/m.exec(text)?.[1] ?? "";
    return [...text.matchAll(/^service (\w+) \{([\s\S]*?)^\}/gm)].flatMap(([, service, body = ""]) =>
      [...body.matchAll(/\brpc (\w+)\(/g)].map(([, rpc]) => `${pkg}.${service}/${rpc}`),
    );
  });

describe("docs/api.md", () => {
  test("has a row for every RPC of the protos, and none besides", async () => {
    const rows = (await readTable()).map(({ rpc }) => rpc);
    expect(declared().length).toBeGreaterThan(80);
    expect([...rows].sort()).toEqual([...declared()].sort());
  });

  test("knows two states", async () => {
    const states = (await readTable()).map(({ state }) => state);
    expect(states.filter((state) => !["implemented", "not yet"].includes(state))).toEqual([]);
  });
});

describe("the running services", () => {
  let dir: string;
  let stop: (() => Promise<void>)[] = [];
  const channels: GrpcChannel[] = [];
  const addresses = { controller: "", forAgents: "", local: "" };
  let orderer: FakeController;

  beforeAll(async () => {
    dir = await mkdtemp(path.join(tmpdir(), "hf-api-"));
    addresses.local = `unix://${path.join(dir, "local.sock")}`;
    for (const name of ["cp", "np", "root"]) await mkdir(path.join(dir, name), { mode: 0o700 });
    const controller = createController(
      loadConfig(controllerSchema, {
        HOLDFAST_LISTEN: "127.0.0.1:0",
        HOLDFAST_AGENT_LISTEN: "127.0.0.1:0",
        HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
        HOLDFAST_STATE_DIR: path.join(dir, "controller"),
        HOLDFAST_PLUGIN_DIR: path.join(dir, "cp"),
      }),
      { log: createMemoryLogger() },
    );
    stop = [() => controller.stop()];
    await controller.start();
    addresses.controller = controller.address();
    addresses.forAgents = controller.agentAddress();
    orderer = await serveFakeController();
    stop.unshift(() => orderer.stop());
    const agent = createAgent(
      loadConfig(agentSchema, {
        HOLDFAST_NODE: "node-a",
        HOLDFAST_LOCAL_LISTEN: addresses.local,
        HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
        HOLDFAST_CONTROLLERS: `${addresses.forAgents},${orderer.address}`,
        HOLDFAST_STATE_DIR: path.join(dir, "agent"),
        HOLDFAST_MACHINE_ID_FILE: machineIdFile(),
        HOLDFAST_ROOT_DIR: path.join(dir, "root"),
        HOLDFAST_PLUGIN_DIR: path.join(dir, "np"),
        HOLDFAST_HOSTED_PLUGIN_DIR: path.join(dir, "h"),
      }),
      { log: createMemoryLogger() },
    );
    stop.unshift(() => agent.stop());
    await agent.start(new AbortController().signal);
    await until("the stream that orders go over", () => orderer.course.some((word) => word.endsWith("registered")));
  });

  afterAll(async () => {
    for (const channel of channels) channel.close();
    for (const end of stop) await end();
    await rm(dir, { recursive: true, force: true });
  });

  const addressOf = (definition: (typeof every)[number]): string => {
    if (onLocalSocket.some((one) => one === definition)) return addresses.local;
    return forAgents.some((one) => one === definition) ? addresses.forAgents : addresses.controller;
  };

  /** The reason of the answer to an empty request, or "" for an answer. */
  const ask = async (definition: (typeof every)[number], key: string, at = addressOf(definition)): Promise<string> => {
    const channel = createGrpcChannel(at);
    channels.push(channel);
    return await askClient(
      createGrpcClient<typeof definition>(definition, channel, { log: createMemoryLogger() }),
      definition,
      key,
    );
  };

  const askOverStream = async (definition: (typeof overStream)[number], key: string): Promise<string> => {
    if (definition === AgentServiceDefinition) return await askClient(orderer.orders(), definition, key);
    const stream = openAgentStream(addresses.forAgents, "node-b");
    try {
      // Who speaks is asked before what is said.
      return await askClient(stream.client, definition, key, { node: "node-b" });
    } finally {
      await stream.end("the question was answered");
    }
  };

  const askClient = async (
    client: unknown,
    definition: (typeof every)[number],
    key: string,
    request: object = {},
  ): Promise<string> => {
    const end = new AbortController();
    const { requestStream, responseStream } = (definition.methods as Readonly<Record<string, Method>>)[key] as Method;
    const options = { signal: end.signal, deadlineMs: 10_000 };
    const call = (client as Record<string, (request: unknown, options: object) => unknown>)[key];
    if (call === undefined) throw new Error(`no method ${key}`);
    async function* once(): AsyncGenerator<object> {
      yield {};
    }
    try {
      const answer = call(requestStream ? once() : request, options);
      if (responseStream) await (answer as AsyncIterable<unknown>)[Symbol.asyncIterator]().next();
      else await answer;
      return "";
    } catch (error) {
      if (!isHoldfastError(error)) throw error;
      return error.reason;
    } finally {
      end.abort();
    }
  };

  const rpcs = every.flatMap((definition) =>
    Object.entries(definition.methods as Readonly<Record<string, Method>>).map(([key, { name }]) => ({
      rpc: `${definition.fullName}/${name}`,
      key,
      definition,
    })),
  );

  test("are called with every RPC that is declared", () => {
    expect(rpcs.map(({ rpc }) => rpc).sort()).toEqual([...declared()].sort());
  });

  test.each(rpcs)("$rpc is what the table says", async ({ rpc, key, definition }) => {
    const row = (await readTable()).find((one) => one.rpc === rpc);
    const streamed = overStream.find((one) => one === definition);
    const reason = streamed === undefined ? await ask(definition, key) : await askOverStream(streamed, key);
    expect(reason === "NOT_IMPLEMENTED" ? "not yet" : "implemented", `it answered ${reason || "OK"}`).toBe(row?.state);
    // An empty request is a mistake of the caller's, or an answer; never a fault of ours.
    expect(["INTERNAL", "UNKNOWN", "UNIMPLEMENTED", "DEADLINE"]).not.toContain(reason);
  });

  test.each([
    ["what is for programs on the host", WorkloadServiceDefinition, "getWorkload", ["controller", "forAgents"]],
    ["what is for schedulers", VolumeServiceDefinition, "listVolumes", ["forAgents", "local"]],
    ["what is for agents", ControllerLinkServiceDefinition, "serve", ["controller", "local"]],
    ["an order", AgentServiceDefinition, "inventory", ["controller", "forAgents", "local"]],
    ["what an agent asks", AgentLinkServiceDefinition, "greet", ["controller", "forAgents", "local"]],
  ] as const)("%s is not served elsewhere", async (_, definition, key, elsewhere) => {
    for (const at of elsewhere) expect(await ask(definition, key, addresses[at]), at).toBe("NOT_IMPLEMENTED");
  });
});
