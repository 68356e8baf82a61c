/**
 * Why a service does not start, as one log line says it: a reason, the settings that it is about, what to do, and the exit code by which
 * a supervisor knows whether to try again. docs/errors.md has a row for each reason.
 */
import { ConfigError } from "./config/config-error.ts";
import { isHoldfastError } from "./errors/holdfast-error.ts";

/** sysexits(3). `config`: a person has to act, and no restart helps. `software`: another start may find the world changed. */
export const exitCodes = { ok: 0, software: 70, config: 78, interrupted: 130 } as const;

/** A setting with its value: one that names what failed is what to correct. */
export interface SettingValue {
  readonly env: string;
  readonly value: unknown;
}

export interface StartFailure {
  readonly message: string;
  readonly exitCode: number;
  readonly fields: {
    readonly reason: string;
    /** What the system said: EACCES, ENOSPC and the like. */
    readonly code?: string;
    readonly settings?: readonly string[];
    readonly cure: string;
    readonly exit_code: number;
  };
}

interface Cure {
  readonly cure: string;
  readonly settings?: readonly string[];
  readonly needsPerson?: true;
}

const store = ["HOLDFAST_STORE"];

const cures: Readonly<Record<string, Cure>> = {
  CONFIG_INVALID: { cure: "correct every setting that is named (docs/settings.md)" },
  LISTEN_FAILED: { cure: "free the address, or choose another" },
  ADDRESS_IN_USE: { cure: "stop the process that has the socket, or choose another path" },
  INSECURE_ADDRESS: { cure: "use a loopback address or a unix socket, or give it a certificate", needsPerson: true },
  STATE_DIR_IN_USE: { cure: "stop the other process, or give each its own directory" },
  STORE_UNAVAILABLE: { cure: "start the store, or correct its address, user or password", settings: store },
  RECORD_DAMAGED: { cure: "restore the store from a backup", settings: store, needsPerson: true },
  STORE_VOLATILE: { cure: "mend the configuration of the Redis as the message says", settings: store },
  STORE_TOO_OLD: { cure: "use Redis 7.0 or newer", settings: store },
  STORE_FOREIGN: { cure: "correct the address or the cell, or restore a backup", settings: store },
  STORE_SCHEMA_NEWER: { cure: "run the release that the message names, or a newer one", settings: store },
  STORE_SCHEMA_OLDER: { cure: "finish the upgrade with the release before this one", settings: store },
  STORE_HALF_IMPORTED: { cure: "repeat holdfast import with the same file", settings: store },
  GENERATED_CODE_MISSING: { cure: "run: npm run generate", needsPerson: true },
};

const curesOfCodes: Readonly<Record<string, string>> = {
  EACCES: "give the user of the service the right to that path, or choose another path",
  EPERM: "give the user of the service the right to do that",
  ENOENT: "make what is missing, or correct the path",
  ENOTDIR: "choose a path below a directory",
  ENOSPC: "free space on that filesystem",
  EDQUOT: "raise the quota of the user, or free space",
  EROFS: "mount that filesystem writable, or choose another path",
  EMFILE: "raise the limit of open files",
  ENFILE: "raise the limit of open files of the host",
};

const generated = /\/shared\/src\/gen\//;

/** @param settings of the service, as far as they could be read */
export function startFailure(error: unknown, settings: readonly SettingValue[]): StartFailure {
  const code = systemCode(error);
  const reason = reasonOf(error, code);
  const { cure, needsPerson, settings: always = [] } = cures[reason] ?? { cure: cureOfCode(code) ?? seeErrors(reason) };
  const named = [...new Set([...violatedSettings(error), ...always, ...settingsThatName(error, settings)])];
  const exitCode = error instanceof ConfigError || needsPerson === true ? exitCodes.config : exitCodes.software;
  return {
    message: `the service does not start: ${inOneLine(reason === "GENERATED_CODE_MISSING" ? missingCode : messageOf(error))}`,
    exitCode,
    fields: {
      reason,
      ...(code === undefined ? {} : { code }),
      ...(named.length === 0 ? {} : { settings: named }),
      cure,
      exit_code: exitCode,
    },
  };
}

const missingCode = "its generated code (packages/shared/src/gen) is missing";

const seeErrors = (reason: string): string =>
  reason === "START_FAILED"
    ? "do what the message asks for; HOLDFAST_LOG_LEVEL=debug shows where it failed"
    : `see ${reason} in docs/errors.md`;

const cureOfCode = (code: string | undefined): string | undefined =>
  code === undefined ? undefined : curesOfCodes[code];

function reasonOf(error: unknown, code: string | undefined): string {
  if (isHoldfastError(error)) return error.reason;
  return code === "ERR_MODULE_NOT_FOUND" && generated.test(messageOf(error))
    ? "GENERATED_CODE_MISSING"
    : "START_FAILED";
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Lists of several lines stay readable: their lines are separated by semicolons. */
const inOneLine = (text: string): string => text.replace(/:\s*\n\s*/g, ": ").replace(/\s*\n\s*/g, "; ");

const violatedSettings = (error: unknown): readonly string[] =>
  isHoldfastError(error)
    ? error.violations
        .map(({ field }) => (field === "store" ? "HOLDFAST_STORE" : field))
        .filter((field) => /^(?:HOLDFAST_|--)/.test(field))
    : [];

/** The error and what caused it, the outermost first. */
function chainOf(error: unknown): readonly Error[] {
  const chain: Error[] = [];
  for (let one = error; one instanceof Error && chain.length < 5; one = one.cause) chain.push(one);
  return chain;
}

const textOf = (error: Error, key: string): string | undefined => {
  const value = (error as unknown as Readonly<Record<string, unknown>>)[key];
  return typeof value === "string" ? value : undefined;
};

const systemCode = (error: unknown): string | undefined =>
  chainOf(error)
    .map((one) => textOf(one, "code"))
    .find((code) => code !== undefined && /^E[A-Z0-9]+(_[A-Z_]+)?$/.test(code));

/** Settings whose value is the address or the path that the error tells of, or a directory above that path. */
function settingsThatName(error: unknown, settings: readonly SettingValue[]): readonly string[] {
  const told = chainOf(error).flatMap((one) => {
    const metadata = isHoldfastError(one) ? [one.metadata["address"], one.metadata["path"]] : [];
    return [textOf(one, "path"), ...metadata].filter((text) => text !== undefined);
  });
  const names = (value: string): boolean =>
    told.some((text) =>
      [text, text.replace(/^unix:\/\//, "")].some((it) => it === value || it.startsWith(`${value}/`)),
    );
  return settings
    .filter(({ value }) =>
      (Array.isArray(value) ? value : [value]).some((it) => typeof it === "string" && it !== "" && names(it)),
    )
    .map(({ env }) => env);
}
