/** Any method of the API, for what has no command of its own: JSON in and out, as the descriptors of the API map it. */
import type { DescMethod, JsonValue } from "@bufbuild/protobuf";
import { wasGivenUp } from "../frame/await-settled.ts";
import { CliFailure } from "../frame/cli-failure.ts";
import type { Command } from "../frame/command.ts";
import type { Context } from "../frame/context.ts";
import { exitCodes } from "../frame/exit-code.ts";
import type { MessageJson } from "../frame/message-json.ts";
import { readText } from "../spec/read-spec.ts";
import { nearNames } from "../words/near-names.ts";
import { usage } from "./option-words.ts";

const nameOf = ({ parent, name }: DescMethod): string => `${parent.name}/${name}`;

/** `VolumeService/GetVolume`, the same with the package before it, or `GetVolume`. */
const methodOf = ({ services }: MessageJson, given: string): DescMethod => {
  const methods = services.flatMap((service) => service.methods);
  const wanted = given.replace(/^\/?(?:holdfast\.(?:agent\.)?v1\.)?/, "");
  const found = methods.find((method) => nameOf(method) === wanted || method.name === wanted);
  if (found !== undefined) return found;
  const near = [
    ...nearNames(wanted, methods.map(nameOf)),
    ...methods.filter(({ name }) => nearNames(wanted, [name]).length > 0).map(nameOf),
  ];
  throw new CliFailure({
    exitCode: exitCodes.usage,
    reason: "USAGE",
    message: `the API has no method ${JSON.stringify(given)}`,
    next: [...new Set(near)].map((name) => `did you mean: holdfast call ${name}`),
  });
};

const parsed = (text: string, from: string): JsonValue => {
  try {
    return JSON.parse(text) as JsonValue;
  } catch (error) {
    // The message of the parser repeats what it read, and that may be a secret.
    const at = /position \d+/.exec(error instanceof Error ? error.message : "")?.[0];
    throw usage(`${from} is no JSON${at === undefined ? "" : `, at ${at}`}`);
  }
};

const holdsSecrets = (value: JsonValue): boolean =>
  typeof value === "object" &&
  value !== null &&
  Object.entries(value).some(([key, item]) => /^inline_?secrets$/i.test(key) || holdsSecrets(item));

/** Values never come from the command line: other users of the host read those, and shells keep them. */
const requestOf = async (context: Context, method: DescMethod, given: string): Promise<JsonValue> => {
  if (given === "-") return parsed(await readText(context, "-"), "standard input");
  const json = parsed(given, "<json>");
  if (method.name === "PutSecret" || holdsSecrets(json))
    throw usage(
      "values of secrets do not belong on a command line: give the JSON on standard input, with - in its place",
    );
  return json;
};

export const callMethod: Command = {
  path: ["call"],
  summary: "call a method of the API by its name",
  description:
    "For what has no command of its own, and to see what a scheduler would see. The request is proto3 JSON with the fields of the method's message (docs/reference), namespace included; so is the answer. A stream prints one document a line, until its end or Ctrl-C. WorkloadService and PluginHostService are an agent's: --address names the socket of HOLDFAST_LOCAL_LISTEN.",
  args: [
    { name: "method", help: "such as VolumeService/GetVolume, or GetVolume" },
    { name: "json", help: "the request; - reads standard input; without it, an empty one", optional: true },
  ],
  examples: [
    {
      line: `holdfast call GetVolume '{"namespace":"default","id":"data"}'`,
      says: "one answer",
    },
    { line: "holdfast call EventService/WatchEvents", says: "a stream" },
    {
      line: `holdfast call --address unix:///run/holdfast/agent.sock GetWorkload '{"namespace":"default","workload":"web-1"}'`,
      says: "what is mounted on this host, of its agent",
    },
  ],
  async run(context, input) {
    const { clients, io } = context;
    const messages = await context.messages();
    const method = methodOf(messages, input.arg("method"));
    const json = await requestOf(context, method, input.optionalArg("json") ?? "{}");
    let request: Buffer;
    try {
      request = Buffer.from(messages.toBytes(method.input.typeName, json));
    } catch (error) {
      throw usage(`<json> is no ${method.input.name}: ${error instanceof Error ? error.message : String(error)}`);
    }
    const streams = method.methodKind === "server_streaming";
    if (!streams && method.methodKind !== "unary")
      throw usage(`${nameOf(method)} takes a stream: no command line gives one`);
    const bytes = (value: Uint8Array): Buffer => Buffer.from(value);
    const definition = {
      path: `/${method.parent.typeName}/${method.name}`,
      requestStream: false,
      requestSerialize: bytes,
      requestDeserialize: bytes,
      responseSerialize: bytes,
      responseDeserialize: bytes,
    } as const;
    const write = (answer: Uint8Array, indent: number | undefined): void =>
      io.stdout.write(`${JSON.stringify(messages.toJson(method.output.typeName, answer), undefined, indent)}\n`);
    if (!streams) {
      const client = clients.of({ call: { ...definition, responseStream: false } } as const);
      write(await client.call(request), 2);
      return;
    }
    const client = clients.of({ call: { ...definition, responseStream: true } } as const);
    try {
      for await (const answer of client.call(request, { signal: io.signal })) write(answer, undefined);
    } catch (error) {
      if (!wasGivenUp(error, io.signal)) throw error;
    }
  },
};
