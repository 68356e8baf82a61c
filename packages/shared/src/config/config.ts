/**
 * Settings come from the environment, or from the JSON file that HOLDFAST_CONFIG_FILE names (a flat object with the same names); the
 * environment wins. `X_FILE` names a file that holds the value of X. The result is frozen and complete, or there is a ConfigError.
 */
import { readFileSync } from "node:fs";
import type { FieldViolation } from "../errors/holdfast-error.ts";
import { cliVariables } from "./cli-environment.ts";
import { ConfigError } from "./config-error.ts";
import { nearest } from "./nearest.ts";
import type { Setting } from "./setting.ts";

export type ConfigSchema = Readonly<Record<string, Setting<unknown>>>;
export type ConfigOf<Schema extends ConfigSchema> = {
  readonly [Name in keyof Schema]: Schema[Name] extends Setting<infer T> ? T : never;
};
export type Environment = Readonly<Record<string, string | undefined>>;

const prefix = "HOLDFAST_";
const fileSuffix = "_FILE";
const configFileName = "HOLDFAST_CONFIG_FILE";

export interface LoadConfigOptions {
  /** Variables with our prefix that other parts read, such as those of tests. */
  readonly alsoKnown?: readonly string[];
  readonly readFile?: (path: string) => string;
}

/** Only gives the schema its type, and checks what can be checked without an environment. */
export function defineConfig<const Schema extends ConfigSchema>(schema: Schema): Schema {
  const names = new Set<string>();
  for (const { env } of Object.values(schema)) {
    if (!env.startsWith(prefix) || names.has(env)) throw new Error(`${env}: has no ${prefix} or is there twice`);
    if (cliVariables.has(env)) throw new Error(`${env}: is the command line's`);
    names.add(env);
  }
  return schema;
}

export function loadConfig<Schema extends ConfigSchema>(
  schema: Schema,
  env: Environment,
  options: LoadConfigOptions = {},
): ConfigOf<Schema> {
  const { alsoKnown = [], readFile = (path: string) => readFileSync(path, "utf8") } = options;
  const wrong: FieldViolation[] = [];
  const complain = (field: string, description: string) => wrong.push({ field, description });

  const fromFile = readConfigFile(env, readFile, complain);
  const settings = Object.values(schema);
  const known = [...settings.map((one) => one.env), ...alsoKnown];
  refuseUnknown(env, fromFile, settings, known, complain);

  const values: Record<string, unknown> = {};
  for (const [name, one] of Object.entries(schema)) {
    const source = readSource(one, env, fromFile, readFile, complain);
    if (source === "unreadable") continue;
    if (source === undefined) {
      if (one.required) complain(one.env, `is not set; it has no default (${one.type}): ${one.doc}`);
      values[name] = one.default;
      continue;
    }
    const parsed = one.parse(source.text);
    if ("value" in parsed) values[name] = parsed.value;
    else complain(source.name, one.secret ? "is not valid (its value is not shown)" : told(source.text, parsed.wrong));
  }
  if (wrong.length > 0) throw new ConfigError(wrong);
  return Object.freeze(values) as ConfigOf<Schema>;
}

type Complain = (field: string, description: string) => void;

function readConfigFile(env: Environment, readFile: (path: string) => string, complain: Complain): Environment {
  const path = env[configFileName];
  if (path === undefined || path === "") return {};
  let parsed: unknown;
  try {
    parsed = JSON.parse(readFile(path));
  } catch (error) {
    complain(configFileName, `${path} cannot be read as JSON: ${firstLine(error)}`);
    return {};
  }
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) {
    complain(configFileName, `${path} has to hold one JSON object`);
    return {};
  }
  const values: Record<string, string> = {};
  for (const [name, value] of Object.entries(parsed)) {
    const text = Array.isArray(value) ? value.join(",") : value;
    if (["string", "number", "boolean"].includes(typeof text)) values[name] = String(text);
    else complain(name, `in ${path} has to be a text, a number, true, false or a list`);
  }
  return values;
}

function refuseUnknown(
  env: Environment,
  fromFile: Environment,
  settings: readonly Setting<unknown>[],
  known: readonly string[],
  complain: Complain,
): void {
  const accepted = new Set([...known, configFileName, ...settings.map((one) => one.env + fileSuffix)]);
  const given = Object.keys(env).filter(
    (name) => name.startsWith(prefix) && env[name] !== undefined && !cliVariables.has(name),
  );
  for (const name of new Set([...given, ...Object.keys(fromFile)])) {
    if (accepted.has(name)) continue;
    const guess = nearest(name, [...accepted]);
    complain(name, guess === undefined ? "is not a setting" : `is not a setting; did you mean ${guess}?`);
  }
}

function readSource(
  one: Setting<unknown>,
  env: Environment,
  fromFile: Environment,
  readFile: (path: string) => string,
  complain: Complain,
): { name: string; text: string } | "unreadable" | undefined {
  const fileName = one.env + fileSuffix;
  for (const source of [env, fromFile]) {
    // Empty counts as not given: that is what `VAR=` in a compose file or a unit means.
    const direct = source[one.env] === "" ? undefined : source[one.env];
    const path = source[fileName] === "" ? undefined : source[fileName];
    if (direct !== undefined && path !== undefined) {
      complain(one.env, `and ${fileName} are both set; set one of them`);
      return "unreadable";
    }
    if (direct !== undefined) return { name: one.env, text: direct };
    if (path === undefined) continue;
    try {
      return { name: fileName, text: readFile(path).replace(/\r?\n$/, "") };
    } catch (error) {
      complain(fileName, `${path} cannot be read: ${firstLine(error)}`);
      return "unreadable";
    }
  }
  return undefined;
}

function told(text: string, wrong: string): string {
  const shown = text.length > 80 ? `${text.slice(0, 80)}…` : text;
  return `= ${JSON.stringify(shown)} ${wrong}`;
}

function firstLine(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split("\n")[0] ?? "";
}
