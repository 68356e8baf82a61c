import { cliEnvironment } from "@holdfast/shared/config/cli-environment";
import { parseDuration } from "@holdfast/shared/config/setting";
import { parseAddress } from "@holdfast/shared/grpc/listen-address";
import { boundedYaml } from "./bounded-text.ts";
import { CliFailure } from "./cli-failure.ts";
import { exitCodes } from "./exit-code.ts";
import type { Io } from "./io.ts";

export interface Settings {
  readonly address: string;
  readonly namespace: string;
  /** Who calls, `role/name`. With certificates only where the caller says so: it has to agree with them then. */
  readonly identity: string | undefined;
  /** The directory, or the file, of the caller's certificate; undefined: no TLS. */
  readonly certs: string | undefined;
  readonly timeoutMs: number;
  readonly json: boolean;
  readonly colour: boolean;
}

/** As they came from the command line; what is not there comes from the environment, then the config file, then here. */
export interface GivenSettings {
  readonly address?: string;
  readonly namespace?: string;
  readonly identity?: string;
  readonly certs?: string;
  readonly timeout?: string;
  readonly json?: boolean;
  readonly colour?: string;
  readonly config?: string;
}

const fileKeys = ["address", "namespace", "identity", "certs", "timeout", "colour"] as const;
type FileKey = (typeof fileKeys)[number];

export const defaultAddress = "127.0.0.1:7600";

const wrong = (message: string, details: readonly string[] = []): CliFailure =>
  new CliFailure({ exitCode: exitCodes.usage, reason: "BAD_SETTING", message, details });

const readConfig = async (io: Io, given: string | undefined): Promise<Partial<Record<FileKey, string>>> => {
  const named = given ?? io.env[cliEnvironment.config];
  const folder = io.env["XDG_CONFIG_HOME"] ?? `${io.home}/.config`;
  const path = named ?? `${folder}/holdfast/config.yaml`;
  let text: string;
  try {
    text = new TextDecoder().decode(await io.readFile(path));
  } catch (error) {
    if (named === undefined) return {};
    throw wrong(`cannot read the config file ${path}: ${error instanceof Error ? error.message : String(error)}`);
  }
  let content: unknown;
  const { parse } = await import("yaml");
  try {
    content = parse(boundedYaml(text, path)) ?? {};
  } catch (error) {
    throw wrong(`${path}: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (typeof content !== "object" || content === null || Array.isArray(content))
    throw wrong(`${path} has to hold settings by name: ${fileKeys.join(", ")}`);
  const mistakes: string[] = [];
  const found: Partial<Record<FileKey, string>> = {};
  for (const [key, value] of Object.entries(content)) {
    const known = fileKeys.find((name) => name === key);
    if (known === undefined) mistakes.push(`${key}: there is no such setting; there are ${fileKeys.join(", ")}`);
    else if (typeof value !== "string") mistakes.push(`${key}: has to be a string`);
    else found[known] = value;
  }
  if (mistakes.length > 0) throw wrong(`${path} has mistakes`, mistakes);
  return found;
};

export const readSettings = async (io: Io, given: GivenSettings): Promise<Settings> => {
  const file = await readConfig(io, given.config);
  const told = (key: FileKey): string | undefined => {
    const env = io.env[cliEnvironment[key]];
    return given[key] ?? (env === "" ? undefined : env) ?? file[key];
  };
  const of = (key: FileKey, otherwise: string): string => told(key) ?? otherwise;
  const mistakes: string[] = [];
  const address = of("address", defaultAddress);
  try {
    parseAddress(address);
  } catch (error) {
    mistakes.push(error instanceof Error ? error.message : String(error));
  }
  const timeout = of("timeout", "5m");
  const timeoutMs = parseDuration(timeout);
  if (timeoutMs === undefined || timeoutMs === 0)
    mistakes.push(`timeout ${JSON.stringify(timeout)} has to be a duration such as 30s, 5m or 1h`);
  const colour = of("colour", "auto");
  if (!["auto", "always", "never"].includes(colour))
    mistakes.push(`colour ${JSON.stringify(colour)} has to be auto, always or never`);
  const user = io.user.replace(/[^A-Za-z0-9._:-]/g, "-");
  const certs = told("certs");
  const identity = told("identity") ?? (certs === undefined ? `operator/${user === "" ? "unknown" : user}` : undefined);
  if (mistakes.length > 0) throw wrong("the settings have mistakes", mistakes);
  return {
    address,
    namespace: of("namespace", "default"),
    identity,
    certs,
    timeoutMs: timeoutMs ?? 0,
    json: given.json === true,
    colour:
      colour === "always" ||
      (colour === "auto" && io.stdout.terminal && (io.env["NO_COLOR"] ?? "") === "" && io.env["TERM"] !== "dumb"),
  };
};
